"""torch, and transformers, with the device, out of an image and by python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.machine import BIN, PROGRAMS, Machine, environment, tool

STUB = BIN / "pasture-python"
STARTS = 3
TOGETHER = 4


def measure(machine: Machine) -> Iterator[dict[str, Any]]:
    image = machine.scratch / "torch.img"
    program = PROGRAMS / "product.py"
    yield from built(machine, image, program, "--preload", "torch")
    yield from starts(machine, image, program)
    if image.exists():
        more = environment(PASTURE_IMAGE=str(image), ONE_MORE="variable")
        yield machine.run("image, one more variable", STUB, program, env=more)
        yield together(machine, image, program)
    used = machine.scratch / "used.img"
    words = ("--preload", "torch", *all_variables(), "--rehearse", str(program))
    yield build(machine, "rehearsal on the device", used, *words)
    if used.exists():
        env = environment(PASTURE_IMAGE=str(used), PASTURE_IMAGE_VERBOSE="1")
        yield machine.run("image, rehearsed on the device", STUB, program, env=env)


def measure_llama(machine: Machine) -> Iterator[dict[str, Any]]:
    image = machine.scratch / "llama.img"
    modules = "torch,transformers,transformers.models.llama.modeling_llama"
    yield from built(machine, image, PROGRAMS / "llama.py", "--preload", modules)
    yield from starts(machine, image, PROGRAMS / "llama.py", count=2)


def built(machine: Machine, image: Path, program: Path, *words: str) -> Iterator[dict[str, Any]]:
    """An image of all variables, each named, and its first program."""
    yield build(machine, f"build {words[1]}", image, *words, *all_variables())
    if image.exists():
        env = environment(PASTURE_IMAGE=str(image), PASTURE_IMAGE_VERBOSE="1")
        yield machine.run("first start", STUB, program, env=env)


def all_variables() -> list[str]:
    return [word for name in sorted(os.environ) for word in ("--env", name)]


def build(machine: Machine, name: str, image: Path, *words: str) -> dict[str, Any]:
    command = (tool("pasture"), "image", "build", "-o", str(image), *words)
    row = machine.run(name, *command, limit_s=90.0)
    return {**row, "image_mb": image.stat().st_size >> 20 if image.exists() else None}


def starts(
    machine: Machine, image: Path, program: Path, count: int = STARTS
) -> Iterator[dict[str, Any]]:
    """By python and out of the image in turn, in one environment."""
    env = environment(PASTURE_IMAGE=str(image), PASTURE_IMAGE_VERBOSE="1")
    for number in range(count):
        yield machine.run(f"python {number}", sys.executable, program)
        if image.exists():
            yield machine.run(f"image {number}", STUB, program, env=env)


def together(machine: Machine, image: Path, program: Path) -> dict[str, Any]:
    """Programs out of one image at once, on one device."""
    began = time.perf_counter()
    env = environment(PASTURE_IMAGE=str(image))
    running = [
        subprocess.Popen([STUB, program], stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(TOGETHER)
    ]
    found = []
    for process in running:
        try:
            text, _ = process.communicate(timeout=min(30.0, machine.left_s()))
            found.append(json.loads(text.splitlines()[-1]))
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            process.kill()
            found.append({"value": None, "program": f"{type(error).__name__}"})
    return {
        "name": f"{TOGETHER} at once",
        "wall_s": time.perf_counter() - began,
        "values": sorted({str(one["value"]) for one in found}),
        "programs": [one["program"] for one in found],
        "load": os.getloadavg()[0],
    }
