"""Where agents report to: HTTP, TLS and UDP on loopback. Counts marks, whatever the protocol.

A mark is a text that one request reported to its agent. It occurs unchanged in what the agent
sends, once that is unpacked; so no format has to be known. Invariant: a mark counts once for each
message that holds it, however often it is in there.
"""

from __future__ import annotations

import collections
import gzip
import http.server
import json
import re
import socketserver
import ssl
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

LOOPBACK = "127.0.0.1"
MARK = re.compile(rb"mark-([a-z]+)-(\d+)-(\d+)-")

Mark = tuple[str, int, int]
"""Kind, pid, and number of the request in that process."""

NEW_RELIC: Mapping[str, Any] = {
    "preconnect": {"redirect_host": LOOPBACK},
    "connect": {
        "agent_run_id": "1",
        "collect_custom_events": True,
        "event_harvest_config": {
            "report_period_ms": 5000,
            "harvest_limits": {"custom_event_data": 3000},
        },
    },
    "get_agent_commands": [],
}
"""What New Relic's collector answers to a method; null to the others."""

ANSWERS: Mapping[str, Any] = {
    "/info": {"version": "7.60.0", "endpoints": ["/v0.4/traces", "/v0.5/traces"]},
    "/sdk/latest-all": {"flags": {}, "segments": {}},
}
"""What is answered to a path, besides {}: Datadog's agent, LaunchDarkly's service."""


class Sink:
    """Takes what agents send, while the block runs.

    Attributes:
        port, tls_port, udp_port: on the loopback.
        counts: how often each mark has arrived.
        paths: how many messages came, by method and path.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        """
        Args:
            certificate: a PEM file with certificate and key; None for no TLS.
        """
        self.counts: collections.Counter[Mark] = collections.Counter()
        self.paths: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        self._servers: list[socketserver.BaseServer] = []
        self.port = self._listen(_http(self))
        self.tls_port = self._listen(_http(self, certificate)) if certificate else 0
        self.udp_port = self._listen(_udp(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def take(self, where: str, message: bytes) -> None:
        """Count a message, and the marks in it."""
        marks = {(k.decode(), int(p), int(n)) for k, p, n in MARK.findall(message)}
        with self._lock:
            self.paths[where] += 1
            self.counts.update(marks)

    def arrived(self) -> dict[Mark, int]:
        with self._lock:
            return dict(self.counts)

    def clear(self) -> None:
        with self._lock:
            self.counts.clear()
            self.paths.clear()

    def _listen(self, server: socketserver.BaseServer) -> int:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        return int(server.server_address[1])  # type: ignore[index]


def unpacked(body: bytes, encoding: str) -> bytes:
    """A body as it was before it was compressed."""
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "deflate":
        return zlib.decompress(body)
    return body


def answer_to(url: str) -> bytes:
    parts = urlsplit(url)
    method = parse_qs(parts.query).get("method")
    if method is not None:
        return json.dumps({"return_value": NEW_RELIC.get(method[0])}).encode()
    if parts.path.startswith("/v1/"):  # OTLP: an empty message of protobuf
        return b""
    return json.dumps(ANSWERS.get(parts.path, {})).encode()


def _http(sink: Sink, certificate: Path | None = None) -> socketserver.BaseServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = unpacked(self._body(), self.headers.get("Content-Encoding", ""))
            where = f"{self.command} {urlsplit(self.path).path}"
            sink.take(where, unquote(self.path).encode() + b"\n" + body)
            # S3 answers a PUT with nothing.
            self._answer(b"" if self.command == "PUT" else answer_to(self.path))

        do_PUT = do_GET = do_HEAD = do_POST  # noqa: N815  names of the standard library

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _body(self) -> bytes:
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            if self.headers.get("Transfer-Encoding", "") == "chunked":
                return b"".join(self._chunks())
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _chunks(self) -> list[bytes]:
            found = []
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                found.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return found

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


def _udp(sink: Sink) -> socketserver.BaseServer:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            sink.take("UDP", self.request[0])

    return socketserver.UDPServer((LOOPBACK, 0), Handler)
