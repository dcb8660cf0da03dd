"""A server of LitServe with a small model of torch: `python litserve_model.py PORT WORKERS`.

The answer names the process that has computed it.
"""

import os
import sys
from typing import Any

import litserve
import torch
from fastapi import Request


class Model(litserve.LitAPI):
    def setup(self, device: str) -> None:
        torch.manual_seed(7)
        layers = torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)
        self.model = torch.nn.Sequential(*layers).eval()

    def decode_request(self, request: Request) -> torch.Tensor:
        return torch.tensor(request["input"], dtype=torch.float32)

    def predict(self, x: torch.Tensor) -> list[float]:
        with torch.no_grad():
            return self.model(x).tolist()

    def encode_response(self, output: list[float]) -> Any:
        return {"output": output, "pid": os.getpid()}


if __name__ == "__main__":
    workers = int(sys.argv[2])
    server = litserve.LitServer(Model(), accelerator="cpu", workers_per_device=workers)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
