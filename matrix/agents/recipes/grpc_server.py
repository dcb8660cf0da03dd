"""What `grpc_client` calls: `python -m matrix.agents.recipes.grpc_server FOLDER`.

Writes its address into FOLDER/address, and each message into FOLDER/arrived, a line each.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc


def serve(folder: Path) -> None:
    with (folder / "arrived").open("ab", buffering=0) as arrived:

        def report(message: bytes, context: Any) -> bytes:
            arrived.write(message + b"\n")
            return b""

        handler = grpc.method_handlers_generic_handler(
            "marks", {"Report": grpc.unary_unary_rpc_method_handler(report)}
        )
        server = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        (folder / "address").write_text(f"127.0.0.1:{port}")
        server.wait_for_termination()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
