"""The servers that faults are done to: how each is started, in which surroundings, and its end.

Each runs in a file system of its own, small enough to be filled, and where the kernel has them
in a group of its own whose number of processes can be limited. Nothing of it is left behind.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from matrix.herd import AT_ANY_PRICE
from pasture.proc.tree import forked_workers, is_running
from pasture.scoreboard.reader import read_scoreboard
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group, environment

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
WORKERS = 3
TIMEOUT_S = 60.0
SERVED_IMAGE = "served.img"
CELERY = ("celery", "celery-plain")
SURROUNDINGS = ("plain", "no /proc", "read-only root")
"""What a server is started in."""

_PREPARE = {
    "plain": "",
    "no /proc": "mount -t tmpfs -o ro none /proc && ",
    "read-only root": "mount -o remount,bind,ro / && ",
}
_PIDS = Path("/sys/fs/cgroup/pids")


def command_of(kind: str, port: int, image: Path) -> list[str]:
    """The command of a server."""
    bind = f"{LOOPBACK}:{port}"
    gunicorn = ["gunicorn", "-w", f"{WORKERS}", "--bind", bind, "--graceful-timeout", "10"]
    gunicorn += ["fault_app:app"]
    uwsgi = ["uwsgi", "--http-socket", bind, "--master", "--processes", f"{WORKERS}"]
    uwsgi += ["--module", "fault_app:app", "--die-on-term", "--no-orphans", "--disable-logging"]
    celery = ["celery", "-A", "fault_tasks", "worker", "-c", f"{WORKERS}", "-l", "WARNING"]
    if kind == "celery-plain":
        return [str(Path(sys.executable).with_name("celery")), *celery[1:]]
    words = {
        "gunicorn": gunicorn,
        "gunicorn-refork": ["--refork", "60", *gunicorn],
        "gunicorn-image": ["--image", str(image), "--refork", "60", *gunicorn],
        "uwsgi": uwsgi,
        "celery": celery,
    }[kind]
    return [sys.executable, "-m", "pasture", "run", *words]


class Place:
    """Folders and limits of a server, for all its lives.

    Attributes:
        state: what application and load share; always writable.
        small: where the server lives, and all that it may write to.
        images: where the file lies that programs start out of, for those that do.
    """

    def __init__(self, directory: Path, small_size: str = "16m") -> None:
        self.directory = directory
        self._sizes = {"state": "64m", "small": small_size}
        self.state, self.small = directory / "state", directory / "small"
        self.images = directory / "images"
        self.mounted: list[Path] = []
        self.group: Path | None = None

    def __enter__(self) -> Place:
        for folder in (self.state, self.small):
            size = self._sizes[folder.name]
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "pasture-faults", str(folder)]
            if subprocess.run(mount, capture_output=True).returncode == 0:
                self.mounted.append(folder)
        self.step_clock(0)
        with contextlib.suppress(OSError):
            group = _PIDS / f"pasture-faults-{secrets.token_hex(4)}"
            group.mkdir()
            if (group / "pids.max").exists():
                self.group = group
        return self

    def step_clock(self, seconds: int) -> None:
        (self.state / "clock").write_bytes(struct.pack("q", seconds))

    def build_images(self) -> None:
        """Two that differ, and the one that is served first. Raises CalledProcessError."""
        self.images.mkdir(exist_ok=True)
        build = [sys.executable, "-m", "pasture", "image", "build", "--preload"]
        for number, modules in enumerate(("json,gunicorn.app.wsgiapp", "json")):
            image = self.images / f"built-{number}"
            if not image.exists():
                subprocess.run([*build, modules, "-o", str(image)], check=True)
        shutil.copyfile(self.images / "built-0", self.images / SERVED_IMAGE)

    def started(self) -> dict[int, int]:
        """Dict of request number to the pid that began to serve it last."""
        lines = (self.state / "started").read_text().split("\n")
        return {int(line.split()[0]): int(line.split()[1]) for line in lines if line}

    def __exit__(self, *_: object) -> None:
        for folder in self.mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        if self.group is not None:
            time.sleep(0.5)
            with contextlib.suppress(OSError):
                self.group.rmdir()


class Server(Group):
    """One life of a server. Its group is all that belongs to it, under any parent."""

    def __init__(self, kind: str, place: Place, surroundings: str, broker: str) -> None:
        self.kind, self.surroundings = kind, surroundings
        self.port = free_port()
        command = command_of(kind, self.port, place.images / SERVED_IMAGE)
        super().__init__(
            [*self._prepared(place.group), *command],
            log=place.directory / f"server-{self.port}.log",
            env=self._environment(place, broker),
            cwd=place.small,
        )

    def _prepared(self, group: Path | None) -> Sequence[str]:
        script = f'{_PREPARE[self.surroundings]}exec "$@"'
        if group is not None:
            script = f"echo $$ > {group}/cgroup.procs && {script}"
        begin = ["unshare", "--mount"] if _PREPARE[self.surroundings] else []
        return [*begin, "sh", "-c", script, "sh"]

    def _environment(self, place: Place, broker: str) -> dict[str, str]:
        small = str(place.small)
        own = {"HOME": small, "TMPDIR": small, "FAULT_STATE": str(place.state)}
        # A program out of an image starts in the folders that the image was built with.
        any_price = (AT_ANY_PRICE,) if self.kind == "gunicorn-refork" else ()
        own["PYTHONPATH"] = os.pathsep.join(map(str, (PROGRAMS, *any_price)))
        return environment({**own, "FAULT_BROKER": broker})

    def pids(self, role: str) -> list[int]:
        """Pids that run, of `master`, `worker` or `mold`."""
        if role == "master":
            return [self.pid] if self.exit_code() is None else []
        shown = read_scoreboard(self.pid)
        if shown is None:
            return list(forked_workers(self.pid)) if role == "worker" else []
        found = [e.pid for e in shown.entries.values() if (e.role == "mold") == (role == "mold")]
        return [pid for pid in found if is_running(pid)]

    def listens(self) -> bool:
        """Whether it is at full strength and takes connections."""
        if len(self.pids("worker")) < WORKERS:
            return False
        if self.kind in CELERY:
            return True
        return listens(self.port)

    def stop(self) -> int | None:
        """Status after TERM; None if it does not end."""
        self.terminate()
        return self.exit_code(TIMEOUT_S)


def reached(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def names(pids: tuple[int, ...] | list[int]) -> list[str]:
    """Pid, state and command of each process."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text().split()[:4]
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            found.append(f"{' '.join(stat)} {command}")
    return found
