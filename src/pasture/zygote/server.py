"""The server of a user's zygotes: has them made, and hands them out.

Owns the socket, the tree of zygotes and the processes that make them. One thread; it waits for
nobody: a client that says nothing is closed. No program of a user runs in it or below it, so
neither its end nor its failure reaches a program that was served.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pasture.errors import PastureError, UsageError, ZygoteFailed
from pasture.zygote import protocol
from pasture.zygote.builds import Build, stub_of
from pasture.zygote.changes import Changes
from pasture.zygote.orders import Built
from pasture.zygote.peer import peer_differs
from pasture.zygote.tree import Plan, Tree, Zygote, bare_name

BACKLOG = 1024
CLIENT_PATIENCE_S = 2.0
MOST_CLIENTS = 256
Waiting = tuple[socket.socket, str]


class Server:
    """Serves until it is told to stop, or gets SIGTERM or SIGINT."""

    def __init__(self, listener: socket.socket, log: int) -> None:
        """Take over a socket.

        Args:
            listener: bound, of SOCK_SEQPACKET.
            log: descriptor for what modules print while they are loaded.
        """
        self._listener, self._log = listener, log
        self._tree = Tree()
        self._changes: dict[str, Changes] = {}
        self._builds: dict[str, Build] = {}
        self._clients: dict[socket.socket, float] = {}
        self._waiting: list[Waiting] = []
        self._selector = selectors.DefaultSelector()
        self._is_stopping = False
        listener.listen(BACKLOG)  # also where systemd has: peers then see this process
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def serve(self) -> None:
        """Serve."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._is_stopping:
            self._start_builds()
            for key, _ in self._selector.select(1.0):
                self._carry_out(key.data)
            self._close_silent_clients()
        self._end()

    @staticmethod
    def _carry_out(work: Callable[[], None]) -> None:
        """No client and no zygote can end the server."""
        try:
            work()
        except Exception:
            traceback.print_exc()

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _end(self) -> None:
        for connection, _ in self._waiting:
            self._reply(connection, {"error": "the server has been stopped"})
        for build in list(self._builds.values()):
            build.process.kill()
            build.end()
        self._listener.close()

    # -- clients

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._clients) >= MOST_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection] = time.monotonic()
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(connection))

    def _hear(self, connection: socket.socket) -> None:
        self._forget(connection)
        try:
            difference = peer_differs(connection)
            request = protocol.parse(connection.recv(protocol.MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            connection.close()
            return
        if isinstance(request, dict):
            self._obey(connection, request, difference)
        else:
            self._answer(connection, request, difference)
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        self._clients.pop(connection, None)
        self._selector.unregister(connection)

    def _close_silent_clients(self) -> None:
        latest = time.monotonic() - CLIENT_PATIENCE_S
        for connection in [c for c, since in self._clients.items() if since < latest]:
            self._forget(connection)
            connection.close()

    def _answer(
        self, connection: socket.socket, request: protocol.Request, difference: str | None
    ) -> None:
        chosen: Zygote | str = difference or self._choose(request)
        try:
            if isinstance(chosen, str):
                connection.sendall(f"exec {chosen}".encode("utf-8", "surrogateescape"))
                return
            shown = shown_name(chosen.plan)
            socket.send_fds(
                connection, [f"serve {shown}".encode()], [chosen.manifest, *chosen.images]
            )
            chosen.served += 1
        except OSError:
            pass  # the client has gone

    def _choose(self, request: protocol.Request) -> Zygote | str:
        chosen = self._tree.choose(request.name, request.python, request.options, request.imports)
        if isinstance(chosen, str):
            named = self._tree.zygotes.get(request.name)
            if named is not None:
                named.refused[chosen] += 1
            return chosen
        if self._is_outdated(chosen):
            chosen.refused["a file has changed"] += 1
            return "a file that the zygote has loaded has changed"
        return chosen

    # -- orders

    def _obey(
        self, connection: socket.socket, order: Mapping[str, Any], difference: str | None
    ) -> None:
        orders: Mapping[str, Callable[..., str | None]] = {
            "start": self._order_start,
            "stop": self._order_stop,
            "reload": self._order_reload,
            "status": self._order_status,
        }
        try:
            if difference is not None:
                raise ZygoteFailed(f"the zygotes belong to another process: {difference}")
            carry_out = orders.get(str(order.get("do")))
            if carry_out is None:
                raise UsageError("no such order")
            awaited = carry_out(**{k: v for k, v in order.items() if k != "do"})
        except PastureError as error:
            self._reply(connection, {"error": error.message, "hint": error.hint})
            return
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            self._reply(connection, {"error": f"the order makes no sense: {error!r}"})
            return
        if awaited is None:
            self._reply(connection, self.status())
        else:
            self._waiting.append((connection, awaited))

    def _order_start(self, **fields: Any) -> str:
        plan = Plan(
            name=str(fields["name"]),
            base=str(fields["base"]),
            preload=tuple(map(str, fields["preload"])),
            python=str(fields["python"]),
            options=tuple(map(str, fields["options"])),
            environ={str(k): str(v) for k, v in dict(fields["environ"]).items()},
            rehearse=str(fields.get("rehearse", "")),
        )
        self.start(plan)
        return plan.name

    def start(self, plan: Plan) -> None:
        """Have a zygote made, on top of the bare one where it has no base.

        Raises:
            ZygoteFailed: there is no such base, or one of that name has been made on top of.
        """
        stub_of(plan.python)
        old = self._tree.zygotes.get(plan.name)
        if old is not None and self._tree.above(plan.name):
            raise ZygoteFailed(
                f"other zygotes are made on top of {plan.name}", hint="stop it first"
            )
        if plan.base:
            base = self._tree.zygotes.get(plan.base)
            if base is None:
                raise ZygoteFailed(f"no zygote is called {plan.base}")
            if base.state == "failed":
                raise ZygoteFailed(f"the zygote {plan.base} has failed: {base.built.problem}")
            if plan.base == plan.name:
                raise ZygoteFailed(f"{plan.name} cannot be made on top of itself")
            # It is for the same interpreter: its memory is that one's.
            plan = replace(
                plan, python=base.plan.python, options=base.plan.options, environ=base.plan.environ
            )
        else:
            plan = replace(plan, base=self._bare(plan))
        if old is not None:
            self._drop(old)
        self._tree.add(plan)

    def _bare(self, plan: Plan) -> str:
        name = bare_name(plan.python, plan.options)
        bare = self._tree.zygotes.get(name)
        if bare is not None and bare.plan.environ != plan.environ:
            if self._tree.above(name):
                name = f"{name}\x1f{plan.name}"  # one of its own, for its environment
            else:
                self._drop(bare)
                del self._tree.zygotes[name]
        bare = self._tree.zygotes.get(name)
        if bare is None:
            self._tree.add(replace(plan, name=name, base="", preload=(), rehearse=""))
        elif bare.state == "failed":
            self._make_again(bare)
        return name

    def _order_stop(self, name: str = "") -> None:
        if not name:
            self._is_stopping = True
            return
        for zygote in [*self._tree.above(name), self._find(name)]:
            self._drop(zygote)
            del self._tree.zygotes[zygote.plan.name]

    def _order_reload(self, name: str = "") -> str | None:
        if name:
            self._make_again(self._find(name))
            return name
        for zygote in list(self._tree.zygotes.values()):
            if not zygote.plan.base:
                self._make_again(zygote)
        return "*" if self._tree.zygotes else None

    def _order_status(self) -> None:
        for zygote in list(self._tree.zygotes.values()):
            if zygote.state == "ready":
                self._is_outdated(zygote)

    def _find(self, name: str) -> Zygote:
        zygote = self._tree.zygotes.get(name)
        if zygote is None:
            raise ZygoteFailed(f"no zygote is called {name}", hint="pasture zygote status")
        return zygote

    def _reply(self, connection: socket.socket, answer: object) -> None:
        import json

        try:
            connection.setblocking(True)
            connection.settimeout(CLIENT_PATIENCE_S)
            connection.sendall(json.dumps(answer).encode())
        except OSError:
            pass
        connection.close()

    def status(self) -> dict[str, Any]:
        """What `pasture zygote status` shows."""
        return {"pid": os.getpid(), "zygotes": [_shown(z) for z in self._tree.zygotes.values()]}

    # -- making

    def _is_outdated(self, zygote: Zygote) -> bool:
        """Whether it has to be made again; if so it is made again."""
        at: Zygote | None = zygote
        while at is not None:
            changes = self._changes.get(at.plan.name)
            if changes is not None and changes.look():
                self._make_again(at)
                return True
            at = self._tree.zygotes.get(at.plan.base)
        return False

    def _make_again(self, zygote: Zygote) -> None:
        for one in [*self._tree.above(zygote.plan.name), zygote]:
            self._drop(one)
            one.state = "waiting"

    def _drop(self, zygote: Zygote) -> None:
        """Let go of what was made. Processes that were served keep it."""
        name = zygote.plan.name
        build = self._builds.pop(name, None)
        if build is not None:
            self._selector.unregister(build.channel)
            build.process.kill()
            build.end()
        changes = self._changes.pop(name, None)
        if changes is not None:
            changes.close()
        if zygote.manifest >= 0:
            os.close(zygote.manifest)
            os.close(zygote.images[-1])
        zygote.manifest, zygote.images = -1, ()

    def _start_builds(self) -> None:
        for zygote in list(self._tree.buildable()):
            name = zygote.plan.name
            zygote.state = "building"
            try:
                build = Build(zygote, self._tree.zygotes.get(zygote.plan.base), self._log)
            except PastureError as error:
                self._fail(zygote, Built(problem=error.message, hint=error.hint))
                continue
            self._builds[name] = build
            self._selector.register(
                build.channel, selectors.EVENT_READ, lambda build=build: self._finish(build)
            )
        for zygote, base in list(self._tree.stranded()):
            problem = f"its base failed: {base.built.problem}"
            self._fail(zygote, Built(problem=problem, hint=base.built.hint))
        self._answer_waiting()

    def _finish(self, build: Build) -> None:
        zygote = build.zygote
        self._selector.unregister(build.channel)
        del self._builds[zygote.plan.name]
        built, descriptors = build.receive()
        if built.problem or len(descriptors) != 2:
            self._fail(zygote, built)
            return
        base = self._tree.zygotes.get(zygote.plan.base)
        zygote.manifest = descriptors[0]
        zygote.images = (*(base.images if base is not None else ()), descriptors[1])
        zygote.built = built
        zygote.state = "ready"
        zygote.times += 1
        self._changes[zygote.plan.name] = Changes(
            built.files, built.folders, (*built.modules, *built.sought)
        )

    def _fail(self, zygote: Zygote, built: Built) -> None:
        zygote.state, zygote.built = "failed", built
        print(f"{shown_name(zygote.plan)}: {built.problem}", file=sys.stderr, flush=True)

    def _answer_waiting(self) -> None:
        left: list[Waiting] = []
        for connection, name in self._waiting:
            zygotes = self._tree.zygotes
            awaited = [z for key, z in zygotes.items() if name in ("*", key)]
            if any(zygote.state in ("waiting", "building") for zygote in awaited):
                left.append((connection, name))
                continue
            failed = [zygote for zygote in awaited if zygote.state == "failed"]
            if failed:
                built = failed[0].built
                self._reply(connection, {"error": built.problem, "hint": built.hint})
            else:
                self._reply(connection, self.status())
        self._waiting = left


def shown_name(plan: Plan) -> str:
    """The name of a zygote for people."""
    return "bare" if "\x1f" in plan.name else plan.name


def _shown(zygote: Zygote) -> dict[str, Any]:
    plan, built = zygote.plan, zygote.built
    return {
        "name": shown_name(plan),
        "base": "" if not plan.base else "bare" if "\x1f" in plan.base else plan.base,
        "state": zygote.state,
        "python": plan.python,
        "options": list(plan.options),
        "preload": list(plan.preload),
        "modules": len(built.modules),
        "bytes": built.bytes,
        "seal": built.seal,
        "problem": built.problem,
        "hint": built.hint,
        "served": zygote.served,
        "refused": dict(zygote.refused),
        "made": zygote.times,
        "variables": sorted(built.variables),
        "notes": [{"code": n.code, "subject": n.subject, "text": n.sentence} for n in built.notes],
    }
