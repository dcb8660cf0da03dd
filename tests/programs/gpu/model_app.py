"""A WSGI application with a model: weights are loaded at the import, and go to the device late."""

import functools
import os

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
WEIGHTS = [torch.randn(2048, 2048) / 45 for _ in range(16)]  # 256 MB


@functools.cache
def model():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [weight.to(device) for weight in WEIGHTS]


def app(environ, start_response):
    if environ["PATH_INFO"] == "/predict":
        layers = model()
        x = torch.ones(1, 2048, device=layers[0].device)
        for layer in layers:
            x = torch.tanh(x @ layer)
        body = f"{float(x.sum()):.3f}"
    else:
        body = "ready"
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Pid", str(os.getpid()))])
    return [body.encode()]
