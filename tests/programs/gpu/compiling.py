"""torch.compile in a sealed process, and in a child of it. The last line is JSON."""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch._dynamo

import pasture

device = "cuda" if Path("/dev/nvidia0").exists() else "cpu"  # asking torch would use CUDA


def curve(x):
    return torch.sin(x) * torch.cos(x).square() + x.exp()


def error_of(scale):
    x = torch.linspace(0, scale, 10_000, device=device)
    return float((torch.compile(curve)(x) - curve(x)).abs().max())


found = {}
if sys.argv[1] == "after":
    found["first"] = error_of(1)
found["sealed"] = pasture.seal().sealed
began = time.perf_counter()
if sys.argv[1] == "before":  # no CUDA in the parent yet
    pid = os.fork()
    if pid == 0:
        os._exit(0 if error_of(2) < 1e-4 else 1)
    found["child"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
torch._dynamo.reset()
found["parent"] = error_of(3)
found["seconds"] = time.perf_counter() - began
print(json.dumps(found), flush=True)
