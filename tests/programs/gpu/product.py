"""Loads torch, and multiplies on the device. The last line is JSON."""

import json
import os
import time

began = time.perf_counter()
import torch  # noqa: E402

imported = time.perf_counter()
device = "cuda" if torch.cuda.is_available() else "cpu"
square = torch.arange(1024 * 1024, dtype=torch.float64, device=device).reshape(1024, 1024).sin()
value = float((square @ square.T).abs().sum())
ended = time.perf_counter()
out_of = os.readlink("/proc/self/exe").rpartition("/")[2]
print(
    json.dumps(
        {
            "import_s": imported - began,
            "product_s": ended - imported,
            "value": value,
            "device": device,
            "program": out_of,
        }
    )
)
