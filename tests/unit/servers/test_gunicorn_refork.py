"""The arbiter's look at molds."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("gunicorn")
from pasture.servers.gunicorn.refork.refork import Refork


def test_a_heartbeat_that_cannot_be_read_ends_neither_server_nor_mold() -> None:
    def refuse() -> float:
        raise OSError(12, "Cannot allocate memory")

    def mold(pid: int, last_update: Any) -> Any:
        handle = SimpleNamespace(tmp=SimpleNamespace(last_update=last_update))
        return SimpleNamespace(pid=pid, slot=None, handle=handle)

    hung: list[int] = []
    refork = cast(Any, object.__new__(Refork))
    refork._arbiter = SimpleNamespace(timeout=30)
    refork._children = SimpleNamespace(molds=[mold(1, refuse), mold(2, lambda: -1e9)])
    refork._board = SimpleNamespace(status=lambda slot: SimpleNamespace(ready=False))
    refork._cycle = SimpleNamespace(hung=lambda pid, now: hung.append(pid))
    refork.kill_molds_that_hang()
    assert hung == [2]
