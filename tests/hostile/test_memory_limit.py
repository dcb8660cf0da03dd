"""A seal in a control group that is nearly full: it leaves out what does not fit, and lives."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pasture.proc import cgroup

PROGRAM = """
import gc, json, os, sys
import pasture, pasture.proc.cgroup, pasture.sealing.headroom
from pasture import _native
if sys.version_info >= (3, 15):
    exec("lazy import decimal")
heap = [{"text": "%d" % n, "list": [n, [n]]} for n in range(200_000)]
print(os.getpid(), flush=True)
sys.stdin.readline()  # the limit is set
report = pasture.seal()
print(json.dumps(report.as_dict()), flush=True)
pid = os.fork()
if pid == 0:
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""


class Group:
    """A control group of our own below that of this process."""

    def __init__(self, folder: Path, limit: str, usage: str) -> None:
        self.folder, self._limit, self._usage = folder, folder / limit, folder / usage

    def leave(self, headroom_bytes: int) -> None:
        self._limit.write_text(str(int(self._usage.read_text()) + headroom_bytes))


@pytest.fixture
def group() -> Iterator[Group]:
    for parent, version in cgroup.groups(Path("/proc")):
        folder = parent / f"pasture-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                if (folder / version.limit).exists():
                    yield Group(folder, version.limit, version.usage)
                    return
            finally:
                folder.rmdir()
    pytest.skip("no control group with a limit of memory can be made here (it takes root)")


def seal_in(group: Group, headroom_bytes: int) -> tuple[dict[str, object], str]:
    """The report of a process in the group, and what its child ended with."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

    def join():
        (group.folder / "cgroup.procs").write_text("0")

    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, **pipes, preexec_fn=join) as process:
        process.stdout.readline()
        group.leave(headroom_bytes)
        out, _ = process.communicate(b"\n", timeout=300)
    assert process.returncode == 0, f"ended with {process.returncode}: the group's limit?"
    report, child = out.decode().splitlines()
    return json.loads(report), child


@pytest.mark.skipif(sys.version_info < (3, 12), reason="nothing is made immortal before 3.12")
def test_in_a_nearly_full_group_what_does_not_fit_is_left_out_with_its_reason(group):
    report, child = seal_in(group, 1_700_000)
    steps = {step["name"]: step for step in report["steps"]}
    assert not report["sealed"]
    assert report["reason"].startswith("no memory for ")
    assert "immortalize" in report["reason"]
    assert f"the memory limit of {group.folder} leaves" in steps["immortalize"]["skipped"]
    assert steps["collect"]["note"].startswith("built in: it may take")
    assert steps["freeze"]["skipped"] is None
    assert child == "0"
    if sys.version_info >= (3, 15):
        [problem] = steps["resolve-imports"]["problems"]
        assert problem.startswith("lazy imports: it may take 33.6 MB for a moment")
        assert steps["resolve-imports"]["counts"]["resolved"] == 0


def test_in_a_group_with_room_everything_is_done(group):
    report, child = seal_in(group, 50_000_000)
    assert (report["sealed"], report["reason"], child) == (True, None, "0")
