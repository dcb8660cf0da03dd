"""The server of a user's zygotes: has them made, and hands them out.

Owns the tree of zygotes and the processes that make them. One thread; it waits for no client. No
program of a user runs in it or below it, so neither its end nor its failure reaches a program that
was served. Invariant: of what a zygote's loading has started nothing outlives its build.
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
from pathlib import Path
from typing import Any

from pasture.errors import PastureError, UsageError, ZygoteFailed
from pasture.interpreter import native
from pasture.proc.tree import children
from pasture_zygote import protocol
from pasture_zygote.builds import Build, stub_of
from pasture_zygote.changes import Changes
from pasture_zygote.connections import MAX_SILENCE_S, Connections
from pasture_zygote.orders import Built
from pasture_zygote.orphans import end_orphans
from pasture_zygote.pace import Pace
from pasture_zygote.peer import bounds_differ, peer_differs
from pasture_zygote.place import require_name
from pasture_zygote.times import file_times
from pasture_zygote.tree import Plan, Tree, Zygote, bare_name, count_reason

MAX_BUILD_S = 600.0
_TICK_S = 1.0
_RETRY_AT_ONCE_S = 1.0
"""After a failure; what has been changed meanwhile may be half of a change."""

_LOADING = ("start", "reload")
"""Orders after which the server has modules loaded."""

_NOT_RECEIVED = "the image could not be received: too many files are open"

Waiting = tuple[socket.socket, frozenset[str]]
"""A connection that is answered once the zygotes of these names are made."""


class Server:
    """Serves until it is stopped, gets SIGTERM or SIGINT, or its socket cannot be reached."""

    def __init__(self, listener: socket.socket, log: int) -> None:
        """Take over a socket.

        Args:
            listener: bound, of SOCK_SEQPACKET.
            log: descriptor for what modules print while they are loaded.
        """
        self._log = log
        self._tree = Tree()
        self._changes: dict[str, Changes] = {}
        self._builds: dict[str, Build] = {}
        self._waiting: list[Waiting] = []
        self._selector = selectors.DefaultSelector()
        self._is_stopping = False
        self._strangers: set[int] = set()
        self._place = listener.getsockname()
        self._identity = _identity(self._place)
        self._connections = Connections(listener, self._selector, self.hear)

    def serve(self) -> None:
        """Serve."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        native().adopt_orphans()
        self._strangers = set(children(os.getpid()))
        tick_s = time.monotonic()
        while not self._is_stopping:
            self._carry_out(self._start_builds)
            for key, _ in self._selector.select(_TICK_S):
                self._carry_out(key.data)
            if time.monotonic() >= tick_s + _TICK_S:
                tick_s = time.monotonic()
                self._carry_out(self._tend)
        self.end()

    @staticmethod
    def _carry_out(work: Callable[[], None]) -> None:
        """No client and no zygote can end the server."""
        try:
            work()
        except Exception:
            traceback.print_exc()

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _tend(self) -> None:
        self._connections.tend()
        if _identity(self._place) != self._identity:
            print(
                f"{self._place} is another file now, or gone: no client can come", file=sys.stderr
            )
            self._is_stopping = True
        latest = time.time() - MAX_BUILD_S
        for build in [b for b in self._builds.values() if b.zygote.began_s < latest]:
            self._drop(build.zygote)
            self._fail(build.zygote, Built(problem=f"loading takes more than {MAX_BUILD_S:g} s"))

    def end(self) -> None:
        """Let go of everything."""
        for connection, _ in self._waiting:
            self._reply(connection, {"error": "the server has been stopped"})
        for zygote in self._tree.zygotes.values():
            self._drop(zygote)
        self._connections.close()

    # -- clients

    def hear(self, connection: socket.socket, message: bytes) -> None:
        """Answer a client's first message; the connection is closed, or waits for more."""
        try:
            difference = peer_differs(connection)
            request = protocol.parse(message)
        except (OSError, ValueError, RecursionError):
            connection.close()
            return
        if isinstance(request, dict):
            self._obey(connection, request, difference)
        else:
            self._answer(connection, request, difference)

    def _answer(
        self, connection: socket.socket, request: protocol.Request, difference: str | None
    ) -> None:
        if difference is not None:
            count_reason(self._tree.refused, difference)
        chosen: Zygote | str = difference or self._choose(request)
        try:
            if isinstance(chosen, str):
                connection.sendall(f"exec {chosen}".encode("utf-8", "surrogateescape"))
                connection.close()
                return
            shown = shown_name(chosen.plan).encode("utf-8", "replace")
            socket.send_fds(connection, [b"serve " + shown], [chosen.manifest, *chosen.images])
        except OSError:
            connection.close()  # the client has gone, or takes no more
            return
        self._connections.expect(connection, lambda c, said: self._count(c, said, chosen))

    @staticmethod
    def _count(connection: socket.socket, message: bytes, zygote: Zygote) -> None:
        """Count what became of a request that a zygote was handed out for."""
        connection.close()
        try:
            reason = protocol.reason_left(message)
        except ValueError:
            return  # it has ended on the way
        if reason:
            zygote.refuse(reason)
        else:
            zygote.served += 1

    def _choose(self, request: protocol.Request) -> Zygote | str:
        chosen = self._tree.choose(request.name, request.python, request.options, request.imports)
        for failed in self._tree.failed_for(request.name, request.python):
            self._retry(failed)
        if isinstance(chosen, str):
            named = self._tree.zygotes.get(request.name)
            if named is not None:
                named.refuse(chosen)
            else:
                count_reason(self._tree.refused, chosen)
            return chosen
        if self._is_outdated(chosen):
            chosen.refuse("a file has changed")
            return "a file that the zygote has loaded has changed"
        return chosen

    # -- orders

    def _obey(
        self, connection: socket.socket, order: Mapping[str, Any], difference: str | None
    ) -> None:
        orders: Mapping[str, Callable[..., frozenset[str] | None]] = {
            "start": self._order_start,
            "stop": self._order_stop,
            "reload": self._order_reload,
            "route": self._order_route,
            "status": self._order_status,
        }
        try:
            if difference is not None:
                raise ZygoteFailed(f"the zygotes belong to another process: {difference}")
            carry_out = orders.get(str(order.get("do")))
            if carry_out is None:
                raise UsageError("no such order")
            if order["do"] in _LOADING:
                _require_equal_bounds(connection)
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

    def _order_start(self, **fields: Any) -> frozenset[str]:
        plan = Plan(
            name=require_name(fields["name"]),
            base=str(fields["base"]),
            preload=tuple(map(str, fields["preload"])),
            python=str(fields["python"]),
            options=tuple(map(str, fields["options"])),
            environ={str(k): str(v) for k, v in dict(fields["environ"]).items()},
            rehearse=str(fields.get("rehearse", "")),
        )
        self.start(plan)
        return frozenset({plan.name})

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
            self._make_at_once(bare)
        return name

    def _order_stop(self, name: str = "") -> None:
        if not name:
            self._is_stopping = True
            return
        for zygote in [*self._tree.above(name), self._find(name)]:
            self._drop(zygote)
            del self._tree.zygotes[zygote.plan.name]

    def _order_reload(self, name: str = "") -> frozenset[str] | None:
        if name:
            self._make_at_once(self._find(name))
            return frozenset({name, *(one.plan.name for one in self._tree.above(name))})
        for zygote in list(self._tree.zygotes.values()):
            if not zygote.plan.base:
                self._make_at_once(zygote)
        return frozenset(self._tree.zygotes) or None

    def _order_route(self, python: str, options: list[str], routes: dict[str, str]) -> None:
        named = {str(text): str(name) for text, name in routes.items()}
        for name in filter(None, named.values()):
            self._find(name)
        self._tree.route(str(python), list(map(str, options)), named)

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
            connection.settimeout(MAX_SILENCE_S)
            protocol.send(connection, json.dumps(answer).encode())
        except OSError:
            pass
        connection.close()

    def status(self) -> dict[str, Any]:
        """What `pasture zygote status` shows."""
        return {
            "pid": os.getpid(),
            "zygotes": [_shown(z) for z in self._tree.zygotes.values()],
            "refused": dict(self._tree.refused),
            "routes": {
                ",".join(sorted(imports)): "bare" if "\x1f" in name else name
                for routes in self._tree.routes.values()
                for imports, name in routes.items()
            },
        }

    # -- making

    def _is_outdated(self, zygote: Zygote) -> bool:
        """Whether it has to be made again; if so it is made again."""
        at: Zygote | None = zygote
        while at is not None:
            changes = self._changes.get(at.plan.name)
            if changes is not None and (path := changes.look()):
                self._note(at.plan, f"{path} has changed")
                at.pace.changed(time.monotonic())
                self._make_again(at)
                return True
            at = self._tree.zygotes.get(at.plan.base)
        return False

    def _retry(self, failed: Zygote) -> None:
        """Make one again that has failed, once that is due or what it was made of has changed."""
        now_s = time.monotonic()
        changes = self._changes.get(failed.plan.name)
        if failed.pace.due_s <= now_s:
            self._make_again(failed)
        elif changes is not None and failed.failed_s + _RETRY_AT_ONCE_S <= now_s and changes.look():
            failed.pace.due_s = now_s
            self._make_again(failed)

    def _make_again(self, zygote: Zygote) -> None:
        for one in [*self._tree.above(zygote.plan.name), zygote]:
            self._drop(one)
            one.state = "waiting"

    def _make_at_once(self, zygote: Zygote) -> None:
        """As the user orders it."""
        self._make_again(zygote)
        for one in [*self._tree.above(zygote.plan.name), zygote]:
            one.pace = Pace()

    def _drop(self, zygote: Zygote) -> None:
        """Let go of what was made. Processes that were served keep it."""
        name = zygote.plan.name
        build = self._builds.pop(name, None)
        if build is not None:
            self._selector.unregister(build.channel)
            build.process.kill()
            self._end_build(build)
        changes = self._changes.pop(name, None)
        if changes is not None:
            changes.close()
        if zygote.manifest >= 0:
            os.close(zygote.manifest)
            os.close(zygote.images[-1])
        zygote.manifest, zygote.images = -1, ()

    def _start_builds(self) -> None:
        for zygote in list(self._tree.buildable(time.monotonic())):
            name = zygote.plan.name
            zygote.state, zygote.began_s = "building", time.time()
            try:
                build = Build(zygote, self._tree.zygotes.get(zygote.plan.base), self._log)
            except PastureError as error:
                self._fail(zygote, Built(problem=error.message, hint=error.hint))
                continue
            except OSError as error:
                self._fail(zygote, Built(problem=f"no process can be started: {error}"))
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
        try:
            built, descriptors = build.receive()
        finally:
            self._end_build(build)
        if built.problem or len(descriptors) != 2:
            for number in descriptors:
                os.close(number)
            self._fail(zygote, built if built.problem else replace(built, problem=_NOT_RECEIVED))
            return
        base = self._tree.zygotes.get(zygote.plan.base)
        try:
            changes = _watched(zygote, built, base)
        except (OSError, ValueError) as error:
            for number in descriptors:
                os.close(number)
            self._fail(zygote, Built(problem=f"its files cannot be watched: {error}"))
            return
        zygote.manifest = descriptors[0]
        zygote.images = (*(base.images if base is not None else ()), descriptors[1])
        zygote.built = zygote.made_of = built
        zygote.state = "ready"
        zygote.times += 1
        self._changes[zygote.plan.name] = changes
        self._check_whole(zygote, changes.while_loading)

    def _check_whole(self, zygote: Zygote, changed: set[str]) -> None:
        """Make it again if files changed while it was loaded.

        It may have half of a change. A file that changes each time is written by the import.
        """
        is_half = bool(changed - zygote.rewritten)
        zygote.rewritten = frozenset(changed)
        if is_half:
            self._note(zygote.plan, f"{min(changed)} has changed while it was loaded")
            zygote.pace.failed(time.monotonic())
            self._make_again(zygote)

    def _end_build(self, build: Build) -> None:
        """With all that it started. Orphans of two builds cannot be distinguished from each other.

        The first process of a container gets orphans of all others: it ends none.
        """
        build.end()
        if not self._builds and os.getpid() != 1:
            end_orphans(self._strangers)

    def _fail(self, zygote: Zygote, built: Built) -> None:
        now_s = time.monotonic()
        zygote.state, zygote.built, zygote.failed_s = "failed", built, now_s
        zygote.pace.failed(now_s)
        made_of = zygote.made_of
        if made_of.files and zygote.plan.name not in self._changes:
            files = [file_times(path) for path, *_ in made_of.files]
            self._changes[zygote.plan.name] = Changes(files, made_of.folders)
        self._note(zygote.plan, built.problem)

    @staticmethod
    def _note(plan: Plan, what: str) -> None:
        print(f"{shown_name(plan)}: {what}", file=sys.stderr, flush=True)

    def _answer_waiting(self) -> None:
        left: list[Waiting] = []
        for connection, names in self._waiting:
            awaited = [z for name, z in self._tree.zygotes.items() if name in names]
            if any(zygote.state in ("waiting", "building") for zygote in awaited):
                left.append((connection, names))
                continue
            failed = [zygote for zygote in awaited if zygote.state == "failed"]
            if failed:
                built = failed[0].built
                self._reply(connection, {"error": built.problem, "hint": built.hint})
            else:
                self._reply(connection, self.status())
        self._waiting = left


def _require_equal_bounds(connection: socket.socket) -> None:
    bound = bounds_differ(connection)
    if bound is not None:
        raise ZygoteFailed(
            f"the server would do that outside of what limits this process: {bound}",
            hint="pasture zygote stop; a server that is started from here has the same limits",
        )


def _watched(zygote: Zygote, built: Built, base: Zygote | None) -> Changes:
    """What a zygote has beside its base, watched."""
    below = base.built if base is not None else Built()
    names = {
        folder: set(found) - set(below.folders.get(folder, ()))
        for folder, found in built.folders.items()
    }
    return Changes(
        set(built.files) - set(below.files),
        {folder: found for folder, found in names.items() if found or folder not in below.folders},
        int(zygote.began_s * 1e9),
    )


def _identity(place: object) -> tuple[int, int] | None:
    """Of the file that a socket is bound to; None if there is none."""
    if not isinstance(place, str) or not place:
        return None
    try:
        status = Path(place).lstat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


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
