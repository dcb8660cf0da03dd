"""torch's DataLoader over annotations as COCO has them: memory and speed, in four ways.

    python examples/torch_loader.py sealed        # plain lists and dicts, sealed before the fork
    python examples/torch_loader.py list          # the same without pasture
    python examples/torch_loader.py serialized    # each annotation pickled into one shared tensor
    python examples/torch_loader.py tensors       # columns of numbers in shared tensors

Workers are forked anew for each epoch, as DataLoader does it by default. Each item is drawn in
random order, its box and its polygon are read and turned into tensors. The last line is JSON: the
memory of the workers at the end of the last epoch, and the items a second over all epochs.
"""

import argparse
import json
import pickle
import random
import time

import memory
import torch
from torch.utils.data import DataLoader, Dataset

import pasture

POINTS = 10


def annotations(count):
    """As in `instances_train2017.json`: a dict each, with a box and a polygon."""
    draw = random.Random(2017)
    return [
        {
            "id": i,
            "image_id": i // 7,
            "category_id": 1 + i % 80,
            "iscrowd": 0,
            "area": draw.uniform(10, 9000),
            "bbox": [draw.uniform(0, 640) for _ in range(4)],
            "segmentation": [[draw.uniform(0, 640) for _ in range(2 * POINTS)]],
        }
        for i in range(count)
    ]


def sample_of(annotation):
    """What a model is given of an annotation."""
    x, y, width, height = annotation["bbox"]
    box = torch.tensor([x, y, x + width, y + height])
    polygon = torch.tensor(annotation["segmentation"][0])
    return box, polygon, annotation["category_id"]


class Plain(Dataset):
    """The list itself."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return sample_of(self.items[index])


class Serialized(Dataset):
    """One shared tensor of bytes: pickled once, unpickled at each access."""

    def __init__(self, items):
        parts = [pickle.dumps(item, protocol=-1) for item in items]
        ends = torch.tensor([len(part) for part in parts]).cumsum(0)
        self.ends = ends.share_memory_()
        self.bytes = torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8)
        self.bytes.share_memory_()

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        begin = 0 if index == 0 else int(self.ends[index - 1])
        item = self.bytes[begin : int(self.ends[index])].numpy()
        return sample_of(pickle.loads(memoryview(item)))


class Tensors(Dataset):
    """A shared tensor a column: what is no number does not fit."""

    def __init__(self, items):
        self.boxes = torch.tensor([item["bbox"] for item in items]).share_memory_()
        self.polygons = torch.tensor([item["segmentation"][0] for item in items]).share_memory_()
        self.categories = torch.tensor([item["category_id"] for item in items]).share_memory_()

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, index):
        x, y, width, height = self.boxes[index]
        box = torch.stack((x, y, x + width, y + height))
        return box, self.polygons[index], int(self.categories[index])


WAYS = {"sealed": Plain, "list": Plain, "serialized": Serialized, "tensors": Tensors}


def train(dataset, context, workers, epochs):
    """Go through all items so often; the workers' memory at the end, and the items a second."""
    loader = DataLoader(
        dataset, batch_size=256, shuffle=True, num_workers=workers, multiprocessing_context=context
    )
    found, items = [], 0
    began = time.perf_counter()
    for epoch in range(epochs):
        batches = iter(loader)
        for number, (boxes, _, _) in enumerate(batches, 1):
            items += len(boxes)
            if epoch == epochs - 1 and number == len(loader):
                seconds = time.perf_counter() - began
                found = [memory.of_process(worker.pid) for worker in batches._workers]
        del batches
    return found, items / seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--annotations", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = WAYS[arguments.way](annotations(arguments.annotations))
    with pasture.sealed(policy=None if arguments.way == "sealed" else "stock") as seal:
        found, rate = train(dataset, seal.context, arguments.workers, arguments.epochs)
    print(json.dumps({"sealed": seal.report.sealed, "workers": found, "items_per_second": rate}))
