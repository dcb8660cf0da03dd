"""Writes annotations as `instances_train2017.json` has them: `python records.py FILE COUNT`."""

import marshal
import random
import sys

POINTS = 10


def records(count):
    draw = random.Random(2017).random
    return [
        {
            "id": number,
            "image_id": number // 7,
            "category_id": 1 + number % 80,
            "iscrowd": 0,
            "area": 9000 * draw(),
            "bbox": [640 * draw() for _ in range(4)],
            "segmentation": [[640 * draw() for _ in range(2 * POINTS)]],
        }
        for number in range(count)
    ]


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        marshal.dump(records(int(sys.argv[2])), file)
