"""NCCL, started in a child of a sealed process. The last line is JSON."""

import json
import os

import torch
import torch.distributed as dist

import pasture

report = pasture.seal()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
        backend, device = ("nccl", "cuda") if torch.cuda.is_available() else ("gloo", "cpu")
        dist.init_process_group(backend, rank=0, world_size=1)
        x = torch.arange(8.0, device=device)
        dist.all_reduce(x)
        code = 0 if float(x.sum()) == 28.0 else 1
        dist.destroy_process_group()
    finally:
        os._exit(code)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
hazards = [str(hazard) for step in report.steps for hazard in step.hazards]
print(json.dumps({"sealed": report.sealed, "child": status, "hazards": hazards}), flush=True)
