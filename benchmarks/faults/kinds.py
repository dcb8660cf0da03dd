"""What is done to a server: each fault, where it applies, and what it excuses.

Each fault is a function of a `Scene` that returns when the fault is over. It excuses lost
answers by naming whose they may be: no other may be lost.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.faults.load import Loss
from benchmarks.faults.servers import SERVED_IMAGE, WORKERS, Place
from pasture_tools.launch.ports import LOOPBACK

STOPPED_S = (1.0, 4.0)
SHORT_S = (2.0, 4.0)
"""How long something is stopped, or there is none of something."""

FLOOD = 200
GRACE_S = 5.0
"""Between a fault and the moment at which its losses are noticed."""

GARBAGE = (
    b"\0" * 5_000,
    b"GET /metrics HTTP/9.9\r\n\r\n",
    b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
)


class Impossible(Exception):
    """This machine does not allow a fault."""


@dataclass
class Excuse:
    """Whose answers may be lost, and when.

    Attributes:
        pids: of those that served.
        everyone: all processes that served.
        nameless: number of requests that no process had started to serve; a connection may have
            been accepted and not read.
    """

    pids: set[int]
    since: float
    until: float
    nameless: int
    everyone: bool = False

    def covers(self, loss: Loss, served_by: int | None) -> bool:
        if loss.ended < self.since or loss.began > self.until + GRACE_S:
            return False
        if self.everyone or served_by in self.pids:
            return True
        if served_by is None and self.nameless > 0:
            self.nameless -= 1
            return True
        return False


class Target(Protocol):
    """A running program that faults are done to."""

    def pids(self, role: str) -> list[int]:
        """Pids that run, of `master`, `worker` or another role that the program has."""

    def members(self) -> tuple[int, ...]:
        """Pids of all that belongs to it."""


@dataclass
class Scene:
    """What a fault is done to, and what it excuses."""

    server: Target
    place: Place
    chance: random.Random
    port: int = 0
    exporter_port: int = 0
    excuses: list[Excuse] = field(default_factory=list)
    restart_broker: Callable[[], None] = lambda: None

    def one(self, role: str) -> int | None:
        pids = self.server.pids(role)
        return self.chance.choice(pids) if pids else None

    @contextlib.contextmanager
    def excused(self, pids: set[int], nameless: int) -> Iterator[Excuse]:
        excuse = Excuse(pids, time.monotonic(), float("inf"), nameless)
        self.excuses.append(excuse)
        try:
            yield excuse
        finally:
            excuse.until = time.monotonic()

    def wait(self, least_and_most_s: tuple[float, float]) -> None:
        time.sleep(self.chance.uniform(*least_and_most_s))


def send(pid: int | None, number: int) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, number)


def kill(role: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        if (pid := scene.one(role)) is not None:
            with scene.excused({pid}, nameless=1):
                send(pid, signal.SIGKILL)

    return fault


def kill_all_workers(scene: Scene) -> None:
    pids = scene.server.pids("worker")
    with scene.excused(set(pids), nameless=len(pids)):
        for pid in pids:
            send(pid, signal.SIGKILL)


def stop(role: str) -> Callable[[Scene], None]:
    """Stopped and continued: nothing may be lost."""

    def fault(scene: Scene) -> None:
        pid = scene.one(role)
        try:
            send(pid, signal.SIGSTOP)
            scene.wait(STOPPED_S)
        finally:
            send(pid, signal.SIGCONT)

    return fault


def stop_and_kill(scene: Scene) -> None:
    """A worker that does not even notice its end."""
    if (pid := scene.one("worker")) is not None:
        with scene.excused({pid}, nameless=1):
            send(pid, signal.SIGSTOP)
            scene.wait(STOPPED_S)
            send(pid, signal.SIGKILL)


def kill_under_a_stopped_master(scene: Scene) -> None:
    """No process sees the worker's end until the master goes on."""
    master = scene.one("master")
    try:
        send(master, signal.SIGSTOP)
        kill("worker")(scene)
        scene.wait(STOPPED_S)
    finally:
        send(master, signal.SIGCONT)


def kill_during_hup(role: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        send(scene.one("master"), signal.SIGHUP)
        time.sleep(scene.chance.uniform(0, 0.5))
        kill(role)(scene)
        scene.wait(SHORT_S)

    return fault


def hup_without_descriptors(scene: Scene) -> None:
    """What is there has to serve on if the next workers cannot be had."""
    if (pid := scene.one("master")) is not None:
        send(pid, signal.SIGHUP)
        _limit(scene, [pid], resource.RLIMIT_NOFILE, _descriptors)


def signals(*numbers: int) -> Callable[[Scene], None]:
    """Of the master's own language: nothing may be lost."""

    def fault(scene: Scene) -> None:
        for number in numbers:
            send(scene.one("master"), number)
            scene.wait(SHORT_S)

    return fault


def reload_uwsgi(scene: Scene) -> None:
    """A worker of uWSGI drops a connection that it has accepted and not read (docs/uwsgi.md)."""
    workers = len(scene.server.pids("worker"))
    with scene.excused(set(), nameless=workers):
        send(scene.one("master"), signal.SIGHUP)
        scene.wait(SHORT_S)


def fill_disk(scene: Scene) -> None:
    if scene.place.small not in scene.place.mounted:
        raise Impossible("the disk is the machine's own")
    filler = scene.place.small / "filler"
    try:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 65536)
        with scene.excused(set(), nameless=0):
            kill("worker")(scene)
        scene.wait(SHORT_S)
    finally:
        filler.unlink()


def _limit(scene: Scene, pids: list[int], kind: int, value_of: Callable[[int], int]) -> None:
    before, old = resource.getrlimit(kind), set(scene.server.members())
    with scene.excused(set(pids), nameless=100) as excuse:
        try:
            for pid in pids:
                with contextlib.suppress(OSError):
                    resource.prlimit(pid, kind, (value_of(pid), before[1]))
            scene.wait(SHORT_S)
        finally:
            now = set(scene.server.members())
            excuse.pids |= now - old  # forks have the limit from their parents
            for pid in now:
                with contextlib.suppress(OSError):
                    resource.prlimit(pid, kind, before)


def _descriptors(pid: int) -> int:
    return max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()) + 1


def _address_space(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize() + 64 * 1024


def no_descriptors(role: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        if (pid := scene.one(role)) is not None:
            _with_a_death(scene, role, [pid], resource.RLIMIT_NOFILE, _descriptors)

    return fault


def no_memory(role: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        if (pid := scene.one(role)) is not None:
            _with_a_death(scene, role, [pid], resource.RLIMIT_AS, _address_space)

    return fault


def _with_a_death(
    scene: Scene, role: str, pids: list[int], kind: int, value_of: Callable[[int], int]
) -> None:
    """A limit; if it is a parent's, a worker dies meanwhile, and has to be replaced."""
    if role != "worker":
        kill("worker")(scene)
    _limit(scene, pids, kind, value_of)


def no_processes(scene: Scene) -> None:
    group = scene.place.group
    if group is None:
        raise Impossible("there is no group of processes")
    (group / "pids.max").write_text("1")
    try:
        kill("worker")(scene)
        scene.wait(SHORT_S)
    finally:
        (group / "pids.max").write_text("max")


def no_processes_for_uwsgi(scene: Scene) -> None:
    """uWSGI does not try a fork again that has failed: what is left serves until a reload."""
    no_processes(scene)
    reload_uwsgi(scene)


def step_clock(scene: Scene) -> None:
    try:
        for seconds in (3600, -3600, 10 * 365 * 86400):
            scene.place.step_clock(seconds)
            time.sleep(1.0)
    finally:
        scene.place.step_clock(0)


def _connections(scene: Scene, count: int) -> Iterator[socket.socket]:
    for _ in range(count):
        with contextlib.suppress(OSError):
            yield socket.create_connection(("127.0.0.1", scene.exporter_port), 2.0)


def flood_exporter(scene: Scene) -> None:
    clients = []
    try:
        for client in _connections(scene, FLOOD):
            clients.append(client)
            with contextlib.suppress(OSError):
                client.sendall(b"GET /metrics HTTP/1.1\r\nX-Half:")
        scene.wait(SHORT_S)
    finally:
        for client in clients:
            client.close()


def garbage_for_exporter(scene: Scene) -> None:
    for data, client in zip(GARBAGE, _connections(scene, len(GARBAGE)), strict=False):
        with client, contextlib.suppress(OSError):
            client.sendall(data)
            client.recv(1000)


def trickle_to_exporter(scene: Scene) -> None:
    """A byte at a time, and answers that no client reads."""
    clients = list(_connections(scene, 20))
    try:
        for byte in b"GET /metrics HTTP/1.1\r\n\r\n":
            for client in clients:
                with contextlib.suppress(OSError):
                    client.sendall(bytes([byte]))
            time.sleep(0.1)
    finally:
        for client in clients:
            client.close()


def slow_clients(scene: Scene) -> str | None:
    """As many as there are workers, a byte at a time: half are answered, half go away."""
    clients = [socket.create_connection((LOOPBACK, scene.port)) for _ in range(WORKERS)]
    try:
        for byte in b"GET /1000000000 HTTP/1.1\r\nHost: a\r\n\r\n":
            for client in clients:
                client.sendall(bytes([byte]))
            time.sleep(0.03)
        for client in clients[::2]:
            client.settimeout(GRACE_S)
            if not client.recv(12).endswith(b"200"):
                return "a slow client has no answer"
    except OSError as error:
        return f"a slow client: {error}"
    finally:
        for client in clients:
            client.close()
    return None


def restart_broker(scene: Scene) -> None:
    """Celery itself reports tasks as failed that have no Redis to give their results to."""
    with scene.excused(set(), nameless=0) as excuse:
        excuse.everyone = True
        scene.restart_broker()
        scene.wait(SHORT_S)


def replace_image(scene: Scene) -> None:
    """Another image gets the name: running programs keep theirs, new ones start out of it."""
    images = scene.place.images
    serving = (images / SERVED_IMAGE).stat().st_size
    other = next(path for path in images.glob("built-*") if path.stat().st_size != serving)
    _rename_over(images, other.read_bytes())


def damage_image(scene: Scene) -> None:
    """Half an image gets the name, then none: programs start by `python`, the server goes on."""
    images = scene.place.images
    whole = (images / SERVED_IMAGE).read_bytes()
    try:
        _rename_over(images, whole[: scene.chance.randrange(len(whole))])
        scene.wait(SHORT_S)
        (images / SERVED_IMAGE).unlink()
        scene.wait(SHORT_S)
    finally:
        _rename_over(images, whole)


def _rename_over(images: Path, data: bytes) -> None:
    (images / "next").write_bytes(data)
    (images / "next").replace(images / SERVED_IMAGE)


Fault = Callable[[Scene], str | None]
"""Returns what was wrong while it lasted, if that shows at once."""

EVERYWHERE: dict[str, Fault] = {
    "kill a worker": kill("worker"),
    "kill all workers": kill_all_workers,
    "stop a worker": stop("worker"),
    "stop a worker, then kill it": stop_and_kill,
    "stop the master": stop("master"),
    "kill a worker of a stopped master": kill_under_a_stopped_master,
    "fill the disk": fill_disk,
    "no descriptors in a worker": no_descriptors("worker"),
    "no descriptors in the master": no_descriptors("master"),
    "no memory in a worker": no_memory("worker"),
    "no memory in the master": no_memory("master"),
    "no processes": no_processes,
    "step the clock": step_clock,
    "flood the exporter": flood_exporter,
    "garbage for the exporter": garbage_for_exporter,
    "trickle to the exporter": trickle_to_exporter,
}
GUNICORN: dict[str, Fault] = {
    "HUP": signals(signal.SIGHUP),
    "kill a worker during HUP": kill_during_hup("worker"),
    "HUP without descriptors": hup_without_descriptors,
    "TTIN and TTOU": signals(signal.SIGTTIN, signal.SIGTTOU),
    "USR1": signals(signal.SIGUSR1),
    "slow clients": slow_clients,
}
MOLDS: dict[str, Fault] = {
    "kill the mold": kill("mold"),
    "stop the mold": stop("mold"),
    "kill the mold during HUP": kill_during_hup("mold"),
    "no descriptors in the mold": no_descriptors("mold"),
    "no memory in the mold": no_memory("mold"),
}
IMAGES: dict[str, Fault] = {"replace the image": replace_image, "damage the image": damage_image}
KILL_MASTER = "kill the master"
"""Is no function: another server has to be started."""

_CELERY = EVERYWHERE | {"HUP": signals(signal.SIGHUP), "restart Redis": restart_broker}
FAULTS: Mapping[str, Mapping[str, Fault]] = {
    "gunicorn": EVERYWHERE | GUNICORN,
    "gunicorn-refork": EVERYWHERE | GUNICORN | MOLDS,
    "uwsgi": EVERYWHERE | {"HUP": reload_uwsgi, "no processes": no_processes_for_uwsgi},
    "celery": _CELERY,
    "celery-plain": _CELERY,
    "gunicorn-image": EVERYWHERE | GUNICORN | MOLDS | IMAGES,
}
