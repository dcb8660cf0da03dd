"""uWSGI's master with a seal before its first fork, once the applications are loaded.

Written for uWSGI 2.0.21 to 2.0.31; leans on `uwsgi.opt`, `uwsgi.post_fork_hook` and on
`mywid` being 0 in the master.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pasture.errors import PastureError, UsageError
from pasture.log_lines import log
from pasture.observing import is_importing
from pasture.scoreboard.recorder import recorder
from pasture.sealing.steps import HEAP_STEPS
from pasture.servers.engine import Engine
from pasture.servers.uwsgi import hooks, worker
from pasture.serving import restart
from pasture.serving.learned import without_auto
from pasture.serving.sealer import Sealer, show_log, without_exit
from pasture.serving.warming import warm_up_as_set
from pasture.trust.untrusted_text import complain
from pasture.warmup.protocol import Protocol

if TYPE_CHECKING:
    from pasture.probe.replay import Replay
    from pasture.warmup.warmup import WarmUpReport

_LAZY = ("lazy-apps", "lazy")

_COOPERATIVE = ("async", "gevent", "asyncio")
"""Options for workers at whose exit uWSGI calls no Python."""

_FAILED_APP = 22
"""Exit status of a worker that could not load its application. uWSGI 2.0.31 uwsgi.h."""

_PRELOADS = (
    "uWSGI loads the application before it forks without pasture, too, so the failure may remain; "
    "lazy-apps avoids it"
)

_INTERRUPTED = 128 + signal.SIGINT


def refuse(options: Any, worker_id: int) -> None:
    """Raise a UsageError for `uwsgi.opt` under which each worker loads the application."""
    found = [name for name in _LAZY if option(options, name)]
    if found or worker_id > 0:
        name = found[0] if found else "lazy-apps"
        raise UsageError(
            f"with {name} each worker loads the application for itself: there is nothing to share",
            hint=f"remove {name}, or keep it and leave pasture out",
        )


def option(options: Any, name: str) -> str | None:
    """The last value of an option of uWSGI's, as text; None if it was not given."""
    value = options.get(name, options.get(name.encode()))
    if isinstance(value, (list, tuple)):
        value = value[-1]
    if isinstance(value, bytes):
        value = value.decode()
    if value is None or value is False:
        return None
    return value if isinstance(value, str) else "true"


class Uwsgi(Engine):
    """uWSGI's master, inside uWSGI. C code forks, which `begin` does not see."""

    name = "uwsgi"
    loads_early = True

    def __init__(self, uwsgi: Any) -> None:
        super().__init__()
        self._uwsgi = uwsgi
        self._pid = os.getpid()
        self._users_hook: Callable[[], object] | None = None

    def check(self, started: Any) -> None:
        refuse(started.opt, started.worker_id())

    def install(self) -> None:
        show_log()
        try:
            self.check(self._uwsgi)
        except PastureError as error:
            self.end(error)
        # uWSGI's exit status decides how a worker leaves, and Python does not know it.
        settings = without_exit(self.settings)
        may_fork = hooks.may_fork()
        self._sealer = Sealer(
            settings if may_fork else without_auto(settings, "a hook cannot fork with this libc"),
            start_again=self._start_again if may_fork else None,
            serves=lambda: "web",
        )
        # uWSGI reads it once, when the application is loaded, which may set its own.
        self._uwsgi.after_req_hook = partial(worker.after_request, self._uwsgi)
        recorder.will_count_requests()
        hooks.before_c_fork(self.before_fork)
        # As uWSGI forks under py-call-uwsgi-fork-hooks, if it has threads.
        hooks.before_fork_with_pythons_hooks(self.before_fork)

    def end(self, error: PastureError) -> NoReturn:
        code = complain(error)
        if self._uwsgi.worker_id() > 0:  # the master would retry for ever
            # It passes the signal on, which must not arrive before the exit, nor while other
            # workers import, who would take it for the user's Ctrl-C.
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
            time.sleep(1)
            os.kill(self._uwsgi.masterpid(), signal.SIGINT)
            code = _FAILED_APP
        os._exit(code)

    def before_fork(self) -> None:
        """Called before all of uWSGI's own forks: workers, spoolers, mules and daemons."""
        if os.getpid() != self._pid and self._uwsgi.worker_id() > 0:
            return
        if is_importing():
            return  # a library of C code, while the application loads
        self._pid = os.getpid()  # uWSGI may have become a daemon meanwhile
        recorder.forked()  # the previous fork: C code does not report its end
        # Put our hook before the user's, which may have been set at any time until now.
        hook = getattr(self._uwsgi, "post_fork_hook", None)
        if hook != self._after_fork:
            self._users_hook = hook
            self._uwsgi.post_fork_hook = self._after_fork
        if any(HEAP_STEPS[step].makes_immortal for step in self.settings.policy.heap):
            hooks.keep_out_of_the_seal()
        try:
            self._sealer.before_fork_or_end(self._warm_up, self._play)
        except KeyboardInterrupt:
            # The error would be printed and ignored. After its fork uWSGI has handlers.
            sys.stdout.flush()
            os._exit(_INTERRUPTED)

    def _after_fork(self) -> None:
        leaves = "leave" in self.settings.policy.at_exit and not any(
            option(self._uwsgi.opt, name) for name in _COOPERATIVE
        )
        worker.begin(self._uwsgi, leaves=leaves, limit=self.settings.memory_limit)
        if self._users_hook is not None:
            self._users_hook()

    def _play(self, replay: Replay) -> None:
        """Run a worker in a probe: the user's hooks for its start and end, and the application."""
        replay.at_end = lambda: getattr(self._uwsgi, "atexit", lambda: None)()
        if self._users_hook is not None:
            self._users_hook()
        replay.serve()

    def _start_again(self, why: str, *, plain: bool = True) -> None:
        """Start uWSGI again in this process, as at its own reload, with its sockets."""
        restart.went_into_background()  # may have forked: this is the master
        if plain:
            log.error(_PRELOADS)
        command = restart.arguments
        if len(command) < 2:  # uWSGI's own program
            given = Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:-1]
            command = [str(Path("/proc/self/exe").readlink()), *map(os.fsdecode, given)]
        restart.again(
            why,
            plain=plain,
            command=command,
            environ={**restart.first_environ, "UWSGI_RELOADS": "1"},
            kept={socket: socket for socket in getattr(self._uwsgi, "sockets", ())},
        )

    def _warm_up(self) -> WarmUpReport:
        return warm_up_as_set(self._application(), self.settings, protocol=Protocol.WSGI)

    def _application(self) -> Callable[..., Any]:
        """The WSGI application that uWSGI was asked to load.

        Raises a UsageError if it is named in an unknown way.
        """
        options = self._uwsgi.opt
        name = option(options, "callable") or "application"
        module = option(options, "module") or option(options, "wsgi")
        file = option(options, "wsgi-file") or option(options, "file")
        if module:
            module, _, given = module.partition(":")
            found: Callable[..., Any] = getattr(importlib.import_module(module), given or name)
            return found
        if file:
            stem = os.path.realpath(file)
            for candidate in list(sys.modules.values()):
                if os.path.realpath(getattr(candidate, "__file__", None) or "") == stem:
                    found = getattr(candidate, name)
                    return found
        raise UsageError(
            "the application to warm up was not found",
            hint="name it with module = or wsgi-file =, not with mount =",
        )
