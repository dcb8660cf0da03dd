"""A training loop over annotations as COCO has them, by torch's DataLoader with forked workers.

    python loader.py WAY FILE             # FILE of records.py

Ways: `stock`; `before` is sealed before CUDA is used, `after` once it is in use. The last line is
JSON.
"""

import argparse
import gc
import json
import marshal
import os
import random
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import pasture

DEVICE = "cuda" if Path("/dev/nvidia0").exists() else "cpu"  # asking torch would use CUDA
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Annotations(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        item = self.items[index]
        x, y, width, height = item["bbox"]
        box = torch.tensor([x, y, x + width, y + height])
        return box, torch.tensor(item["segmentation"][0]), item["category_id"]


class Step:
    """A small model on the device, and one step of its training."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
        ).to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-9)

    def __call__(self, boxes, categories):
        boxes, wanted = boxes.to(DEVICE), categories.to(DEVICE).float()
        loss = (self.model(boxes).squeeze(1) - wanted).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def memory_mb(pid):
    """Private memory and PSS of a process."""
    counts = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split()[:2]
        counts[name[:-1]] = int(value) / 1024
    return counts["Private_Clean"] + counts["Private_Dirty"], counts["Pss"]


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def sealed(found):
    began = time.perf_counter()
    report = pasture.seal()
    found["seal_s"] = time.perf_counter() - began
    found["sealed"] = report.sealed
    found["steps_s"] = {step.name: round(step.seconds, 3) for step in report.steps}
    found["hazards"] = [str(hazard) for step in report.steps for hazard in step.hazards]
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=("stock", "before", "after"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {"way": given.way, "device": DEVICE}
    began = time.perf_counter()
    gc.disable()
    dataset = Annotations(marshal.loads(given.file.read_bytes()))
    gc.enable()
    found["load_s"] = time.perf_counter() - began
    if given.way == "before":
        sealed(found)
    step = Step()
    step(torch.ones(4, 4), torch.ones(4, dtype=torch.int64))  # the device is in use from here on
    if given.way == "after":
        sealed(found)
    random.seed(0)
    loader = DataLoader(
        dataset,
        batch_size=512,
        shuffle=True,
        num_workers=given.workers,
        multiprocessing_context="fork",
        persistent_workers=True,
        generator=torch.Generator().manual_seed(7),
    )
    train(loader, step, given.epochs, found)
    print(json.dumps(found), flush=True)
    loader._iterator._shutdown_workers()
    os._exit(0)  # nothing is to be freed object by object


def train(loader, step, epochs, found):
    total, items, categories_sum = torch.zeros((), device=DEVICE, dtype=torch.float64), 0, 0
    began = time.perf_counter()
    batches = iter(loader)
    found["start_s"] = time.perf_counter() - began
    workers = [worker.pid for worker in batches._workers]
    began = time.perf_counter()
    for epoch in range(epochs):
        for boxes, polygons, categories in batches if epoch == 0 else loader:
            assert polygons.shape[1] == 20
            total += step(boxes, categories)
            categories_sum += int(categories.sum())
            items += len(boxes)
    found["loss"] = float(total)
    found["categories"] = categories_sum
    seconds = time.perf_counter() - began
    found["items_per_second"] = items / seconds
    found["workers_processor_s"] = sum(map(processor_seconds, workers))
    memory = [memory_mb(pid) for pid in workers]
    found["private_mb"] = [round(private, 1) for private, _ in memory]
    found["pss_mb"] = round(sum(pss for _, pss in memory) + memory_mb(os.getpid())[1], 1)


if __name__ == "__main__":
    main()
