"""Parts of the zygotes' server that need no process: limits, pace, messages, names in folders."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from pasture.errors import UsageError
from pasture_zygote import peer, protocol, watch
from pasture_zygote.bounds import cgroup_differs, limit_differs
from pasture_zygote.changes import Changes
from pasture_zygote.connections import Connections
from pasture_zygote.pace import CALM_S, MAX_S, Pace
from pasture_zygote.place import require_name
from pasture_zygote.search import SearchFolder
from pasture_zygote.times import file_times

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            {}            seconds
Max nice priority         0                    0
"""


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        ("unlimited", "unlimited", None),
        ("60", "unlimited", None),
        ("unlimited", "60", "max cpu time"),
        ("60", "59", "max cpu time"),
    ],
)
def test_a_lower_hard_limit_is_a_difference(own: str, other: str, said: str | None) -> None:
    found = limit_differs(LIMITS.format(own), LIMITS.format(other))
    assert (found or "").removeprefix("a lower hard limit: ") == (said or "")


def test_a_control_group_counts_if_it_limits_what_the_server_is_not_limited_by(
    tmp_path: Path,
) -> None:
    for path in ("user", "user/login", "user/job", "user/job/part"):
        (tmp_path / path).mkdir()
        (tmp_path / path / "cgroup.procs").write_text("")
        (tmp_path / path / "memory.max").write_text("max\n")
        (tmp_path / path / "cpu.max").write_text("max 100000\n")
    own = "0::/user/login\n"
    assert cgroup_differs(own, own, tmp_path) is None
    assert cgroup_differs(own, "0::/user\n", tmp_path) is None
    assert cgroup_differs(own, "0::/user/job/part\n", tmp_path) is None
    (tmp_path / "user" / "job" / "memory.max").write_text("1000000\n")
    found = cgroup_differs(own, "0::/user/job/part\n", tmp_path)
    assert found == "another control group: memory.max of /user/job"
    assert "unknown limits" in (cgroup_differs(own, "0::/elsewhere\n", tmp_path) or "")


def test_control_groups_of_version_1_are_compared_by_controller(tmp_path: Path) -> None:
    own = "4:name=systemd:/a\n3:memory:/\n2:cpu,cpuacct:/\n1:devices:/\n"
    (tmp_path / "memory" / "job").mkdir(parents=True)
    (tmp_path / "memory" / "job" / "cgroup.procs").write_text("")
    limit = tmp_path / "memory" / "job" / "memory.limit_in_bytes"
    limit.write_text("9223372036854771712\n")
    assert cgroup_differs(own, own.replace("systemd:/a", "systemd:/b"), tmp_path) is None
    assert cgroup_differs(own, own.replace("memory:/", "memory:/job"), tmp_path) is None
    limit.write_text("1000000\n")
    assert cgroup_differs(own, own.replace("memory:/", "memory:/job"), tmp_path)
    assert cgroup_differs(own, own.replace("devices:/", "devices:/job"), tmp_path)


def test_another_label_of_a_security_module_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        assert peer.peer_differs(a) is None
        monkeypatch.setattr(peer, "_label", lambda process: str(process).encode())
        assert peer.peer_differs(a) == "another label of a security module"


def test_tries_that_follow_closely_wait_twice_as_long_each_time() -> None:
    pace, due = Pace(), []
    for _ in range(9):
        pace.failed(100.0)
        due.append(pace.due_s - 100.0)
    assert due == [1, 2, 4, 8, 16, 32, MAX_S, MAX_S, MAX_S]


def test_the_first_change_is_followed_at_once_and_a_storm_is_not() -> None:
    pace = Pace()
    pace.changed(100.0)
    assert pace.due_s <= 100.0
    pace.changed(101.0)
    assert pace.due_s == 102.0
    pace.changed(102.5)
    assert pace.due_s == 104.5
    pace.changed(110.0 + CALM_S)
    assert pace.due_s <= 110.0 + CALM_S


@pytest.mark.parametrize("length", [0, 1, 1 << 16, (1 << 16) + 1, 5_000_000])
def test_a_message_of_any_length_arrives_whole(length: int) -> None:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        protocol.send(a, b"x" * length)
        assert protocol.receive(b) == b"x" * length


def test_a_descriptor_that_could_keep_the_server_waiting_is_not_read() -> None:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with a, b:
        for numbers in ([reader], [reader, reader, writer]):
            socket.send_fds(a, [b"in memory 1"], numbers)
            try:
                assert protocol.receive(b) == b"in memory 1"
            except ValueError:
                pass
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("name", ["", "bare", "a\nb", "\x1f", "\ud800", "x" * 101, 7, None])
def test_what_no_zygote_can_be_called_is_refused(name: object) -> None:
    with pytest.raises(UsageError):
        require_name(name)


@pytest.mark.parametrize(
    ("entry", "counts"),
    [
        ("app.py", True),
        ("app.cpython-314-x86_64-linux-gnu.so", True),
        ("app.pyc", True),
        ("app.log", False),
        ("app", False),
        ("app.py~", False),
        (".app.py.swp", False),
        ("other.py", False),
        ("extra.pth", False),
    ],
)
def test_only_what_could_be_imported_under_a_loaded_name_counts(
    tmp_path: Path, entry: str, counts: bool
) -> None:
    folder = SearchFolder(str(tmp_path), {"app"})
    assert not folder.differs()
    (tmp_path / entry).write_text("")
    assert folder.differs() == counts


def test_a_folder_counts_once_it_is_a_package(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    folder = SearchFolder(str(tmp_path), {"app"})
    assert not folder.has_new_package()
    (tmp_path / "app" / "__init__.py").write_text("")
    assert folder.has_new_package() and folder.differs()


class _Listener:
    """A socket that cannot be accepted from for want of descriptors, so many times."""

    def __init__(self, path: Path, shortages: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        self.shortages = shortages

    def accept(self) -> tuple[socket.socket, object]:
        if self.shortages:
            self.shortages -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def _one_that_waits(
    folder: Path, shortages: int
) -> tuple[selectors.DefaultSelector, Connections, socket.socket]:
    selector = selectors.DefaultSelector()
    listener: Any = _Listener(folder / "socket", shortages)
    connections = Connections(listener, selector, lambda connection, message: connection.close())
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(str(folder / "socket"))
    client.setblocking(False)
    return selector, connections, client


def _turn(selector: selectors.DefaultSelector) -> int:
    ready = selector.select(0)
    for key, _ in ready:
        key.data()
    return len(ready)


def test_without_descriptors_a_client_is_sent_away_at_once(tmp_path: Path) -> None:
    selector, connections, client = _one_that_waits(tmp_path, shortages=1)
    assert _turn(selector) == 1
    assert client.recv(1) == b""
    connections.close()


def test_without_descriptors_the_server_does_not_run_in_circles(tmp_path: Path) -> None:
    selector, connections, client = _one_that_waits(tmp_path, shortages=2)
    assert [_turn(selector) for _ in range(3)] == [1, 0, 0]
    time.sleep(0.25)  # as long as it pauses
    connections.tend()
    client.send(b"x")
    assert _turn(selector) == 1 and _turn(selector) == 1
    assert client.recv(1) == b""
    connections.close()


def _watching(folder: Path) -> Changes:
    path = folder / "app.py"
    path.write_text("VALUE = 1\n")
    return Changes([file_times(str(path))], {str(folder): ("app",)})


def test_where_changes_cannot_be_watched_all_is_compared_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that another host writes to."""
    monkeypatch.setattr(watch.Watch, "add", lambda self, folder: None)
    changes = _watching(tmp_path)
    (tmp_path / "app.log").write_text("")
    assert changes.look() == ""
    other = tmp_path / "other"
    other.mkdir()
    changes = _watching(other)
    (other / "app.so").write_text("")
    assert changes.look() == str(other)
    (tmp_path / "app.py").write_text("VALUE = 22\n")
    assert _watching(tmp_path).look() == ""
    changes = _watching(tmp_path)
    (tmp_path / "app.py").write_text("VALUE = 333\n")
    assert changes.look() == str(tmp_path / "app.py")


def test_more_events_than_the_kernel_keeps_are_no_change(tmp_path: Path) -> None:
    changes = _watching(tmp_path)
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    logs = [tmp_path / "app.log", tmp_path / "app.err"]
    for number in range(kept // 2 + 2):
        os.mknod(logs[number % 2])
        logs[number % 2].unlink()
    assert changes.look() == ""
    (tmp_path / "app.py").write_text("VALUE = 2\n")
    assert changes.look() == "app.py"
