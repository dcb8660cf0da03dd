"""A small Llama of random weights, by transformers, on the device. The last line is JSON."""

import json
import os
import time

began = time.perf_counter()
import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

imported = time.perf_counter()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
    num_attention_heads=4, num_key_value_heads=4,
)  # fmt: skip
model = LlamaForCausalLM(config).eval().to(device)
with torch.no_grad():
    value = model(torch.arange(64, device=device)[None]).logits.double().abs().sum()
print(
    json.dumps(
        {
            "import_s": imported - began,
            "product_s": time.perf_counter() - imported,
            "value": round(float(value), 3),
            "program": os.readlink("/proc/self/exe").rpartition("/")[2],
        }
    )
)
