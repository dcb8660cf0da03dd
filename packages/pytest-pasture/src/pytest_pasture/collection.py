"""The mold's collection, which each process that is forked from it takes up."""

from __future__ import annotations

from typing import Any

import pytest
from execnet.gateway_base import get_execmodel

from pytest_pasture.control import Channel
from pytest_pasture.lookout import WorkerInput
from pytest_pasture.shared import Shared
from pytest_pasture.streams import Standard


class EarlyChannel:
    """Replaces the channel of a worker until it exists."""

    def __init__(self) -> None:
        self.gateway = self
        self.execmodel = get_execmodel("main_thread_only")
        self.events: list[tuple[str, dict[str, Any]]] = []

    def send(self, event: tuple[str, dict[str, Any]]) -> None:
        self.events.append(event)


class Collection:
    """A session of xdist's worker, up to its tests."""

    input: WorkerInput
    interactor: Any  # xdist's
    first_sockets: list[int]  # sockets of the first worker that is wanted
    collected: bytes  # messages of the collection that each worker sends
    shared: Shared

    def __init__(self, config: pytest.Config, control: Channel, is_kept: bool) -> None:
        self.config = config
        self.control = control
        self.is_kept = is_kept
        self.standard = Standard()
        self.recorder = EarlyChannel()
        self.loops: list[Any] = []  # asyncio's, at which nothing waits
