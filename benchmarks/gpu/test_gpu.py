"""Programs that use a GPU next to a seal or out of an image: right, or refused in words.

`make test-gpu`; skipped where there is no GPU or no torch. The programs are those of the benchmark.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.images import STUB, all_variables
from benchmarks.gpu.machine import PROGRAMS, Machine, environment, missing, tool
from benchmarks.gpu.servers import serve

WHY_NOT = missing(needs_gpu=True)
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
LIMIT_S = 100


def run(*command: str | Path, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [*command], capture_output=True, text=True, timeout=LIMIT_S, env=environment(**variables)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return {**found, "said": done.stderr}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("records") / "records"
    subprocess.run([sys.executable, PROGRAMS / "records.py", file, "40000"], check=True)
    return file


def trained(way: str, records: Path) -> dict[str, Any]:
    return run(sys.executable, PROGRAMS / "loader.py", way, records, "--workers", "4")


@pytest.fixture(scope="module")
def stock(records: Path) -> dict[str, Any]:
    return trained("stock", records)


@pytest.mark.parametrize("way", ["before", "after"])
def test_a_sealed_loop_has_the_same_loss_and_its_workers_share_the_records(
    way: str, records: Path, stock: dict[str, Any]
) -> None:
    found = trained(way, records)
    assert found["device"] == "cuda"
    assert found["sealed"]
    assert (found["loss"], found["categories"]) == (stock["loss"], stock["categories"])
    assert max(found["private_mb"]) < min(stock["private_mb"]) / 2


def test_a_child_that_uses_the_device_after_its_parent_did_raises_as_without_pasture() -> None:
    stock = run(sys.executable, PROGRAMS / "touching.py", "stock")
    found = run(sys.executable, PROGRAMS / "touching.py", "sealed")
    assert "Cannot re-initialize CUDA in forked subprocess" in stock["child"]
    assert found["child"] == stock["child"]
    assert any("CUDA" in hazard for hazard in found["hazards"])


def test_a_child_of_a_sealed_process_starts_nccl() -> None:
    assert run(sys.executable, PROGRAMS / "nccl.py")["child"] == 0


def test_what_is_compiled_in_a_sealed_process_and_in_its_child_is_right() -> None:
    found = run(sys.executable, PROGRAMS / "compiling.py", "before")
    assert found["sealed"]
    assert found["child"] == 0
    assert found["parent"] < 1e-4


def test_what_is_compiled_after_a_seal_that_cuda_preceded_is_right() -> None:
    found = run(sys.executable, PROGRAMS / "compiling.py", "after")
    assert found["sealed"]
    assert max(found["first"], found["parent"]) < 1e-4


def test_programs_out_of_an_image_with_torch_use_one_device_at_once(tmp_path: Path) -> None:
    image = tmp_path / "torch.img"
    words = ("image", "build", "-o", str(image), "--preload", "torch", *all_variables())
    built = subprocess.run([tool("pasture"), *words], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    program = PROGRAMS / "product.py"
    plain = run(sys.executable, program)
    running = [
        subprocess.Popen(
            [STUB, program], stdout=subprocess.PIPE, text=True,
            env=environment(PASTURE_IMAGE=str(image)),
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in running:
        text, _ = process.communicate(timeout=LIMIT_S)
        found = json.loads(text.splitlines()[-1])
        assert found["program"] == STUB.name
        assert (found["device"], found["value"]) == ("cuda", plain["value"])


def test_a_rehearsal_that_uses_the_device_is_refused_in_words_or_serves_right(
    tmp_path: Path,
) -> None:
    image, program = tmp_path / "used.img", PROGRAMS / "product.py"
    words = ("image", "build", "-o", str(image), "--preload", "torch", "--rehearse", str(program))
    built = subprocess.run(
        [tool("pasture"), *words, *all_variables()], capture_output=True, text=True
    )
    if image.exists():
        assert (
            run(STUB, program, PASTURE_IMAGE=str(image))["value"]
            == (run(sys.executable, program)["value"])
        )
    else:
        assert built.returncode != 0
        assert "Traceback" not in built.stderr


def test_a_server_whose_warm_up_uses_the_device_serves_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS))
    machine = Machine(tmp_path, time.monotonic() + LIMIT_S, 0, 0, tmp_path)
    words = ("run", "--warm", "/predict", "gunicorn", "-w", "4")
    found = serve(machine, "warmed", tool("pasture"), *words)
    plain = serve(machine, "plain", tool("gunicorn"), "-w", "4")
    assert "error" not in found, found
    assert found["answers"] == plain["answers"]
    assert "probe" in found["log"]
