"""xdist's nodes, over a pair of sockets to a process that the mold forks.

xdist's controller, schedulers and reports, and execnet's protocol, stay as they are.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import execnet
import pytest
from execnet.gateway import RInfo
from xdist import workermanage

from pytest_pasture.controller import Mold, Request
from pytest_pasture.events import Events, Node
from pytest_pasture.gateway import SocketIO

# The name until pytest-xdist 3.6.
_tx_specs = getattr(workermanage, "parse_tx_spec_config", None) or workermanage.parse_spec_config

MOLD = pytest.StashKey[Mold]()
"""Of the controller's configuration, where workers are forked."""


class ControllerIO(SocketIO):
    """The controller's end, which can end the process at the other one."""

    request: Request

    def write(self, data: bytes, /) -> None:
        with suppress(ConnectionError):  # a worker that is gone, which is read later
            super().write(data)

    def wait(self) -> int | None:
        self.request.settled.wait()
        if self.request.process is not None:
            self.request.process.wait()
        return None

    def kill(self) -> None:
        if self.request.process is not None:
            self.request.process.kill()


class NodeManager(workermanage.NodeManager):  # type: ignore[misc]
    """Makes each node out of the mold, where the configuration has one."""

    def setup_node(self, spec: execnet.XSpec, putevent: Any) -> workermanage.WorkerController:
        mold = self.config.stash.get(MOLD, None)
        if mold is None:
            return super().setup_node(spec, putevent)
        gateway, events = self._gateway(mold, spec)
        self.config.hook.pytest_xdist_newgateway(gateway=gateway)
        node = Node(self, gateway, self.config, putevent)
        gateway.node = node  # type: ignore[attr-defined]
        putevent.__self__.read(node, events)
        node.setup()
        return node

    def _gateway(self, mold: Mold, spec: execnet.XSpec) -> tuple[execnet.Gateway, socket.socket]:
        self.group.allocate_id(spec)
        assert spec.id is not None
        (ours, theirs), (events, for_events) = socket.socketpair(), socket.socketpair()
        io = ControllerIO(ours, self.group.execmodel)
        io.request = mold.request(spec.id, theirs, for_events)
        gateway = execnet.Gateway(io, spec)
        self.group._register(gateway)
        gateway._cache_rinfo = RInfo(
            {
                "executable": sys.executable,
                "version_info": sys.version_info[:5],
                "platform": sys.platform,
                "cwd": str(Path.cwd()),
                "pid": None,
            }
        )
        return gateway, events

    def teardown_nodes(self) -> None:
        mold = self.config.stash.get(MOLD, None)
        if mold is not None and mold.sealed is None:  # no process is at the other ends
            mold.stop()
        super().teardown_nodes()
        if mold is not None and mold.sealed is not None:
            mold.stop()


class Order:
    """Has xdist read what workers write, and the mold fork each node once it is configured."""

    def __init__(self, mold: Mold) -> None:
        self.mold = mold

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Before xdist's own, which makes the nodes."""
        dsession = session.config.pluginmanager.getplugin("dsession")
        dsession.queue = Events(dsession)

    @pytest.hookimpl(trylast=True)
    def pytest_configure_node(self, node: workermanage.WorkerController) -> None:
        io = node.gateway._io
        if isinstance(io, ControllerIO):
            folders = getattr(node.config, "_tmp_path_factory", None)
            basetemp = str(folders.getbasetemp()) if folders is not None else None
            self.mold.want(io.request, node.workerinput, basetemp)

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self) -> None:
        self.mold.interrupt()


def reason_against(config: pytest.Config) -> str | None:
    """Why these nodes cannot be forked, known before there is any."""
    for spec in map(execnet.XSpec, _tx_specs(config)):
        if not spec.popen or spec.python or spec.chdir or spec.via or spec.nice or spec.env:
            return f"--tx {spec} starts another interpreter"
    if config.getoption("px", None):
        return "--px starts interpreters through a proxy"
    for hook in ("pytest_xdist_newgateway", "pytest_xdist_getremotemodule"):
        for implementation in getattr(config.hook, hook).get_hookimpls():
            return f"{implementation.plugin_name} has {hook}"
    return None
