"""A worker of uWSGI: its steps after the fork, and an exit without finalization.

uWSGI ends a worker by C's `exit`, which finalizes Python and would copy every shared page. Owns an
earlier exit, with the same status and the same calls.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import traceback
from typing import Any

from pasture.fork_safety import inherited, streams
from pasture.log_lines import log
from pasture.own_values import generators
from pasture.scoreboard import layout
from pasture.scoreboard.recorder import recorder
from pasture.sealing import child, exit
from pasture.servers.uwsgi import hooks
from pasture.serving import learned
from pasture.serving.after_response import AfterResponse

_after = AfterResponse(None)


def begin(uwsgi: Any, *, leaves: bool, limit: int | None = None) -> None:
    """Take the policy's steps for children. In a worker, right after the fork.

    `leaves`: whether it leaves without finalization; `limit`: of its private memory.
    """
    streams.isolate()
    inherited.put_in_order(None)
    generators.renew_in_child()
    child.take_steps()
    role = role_of(uwsgi)
    if role is not None:
        recorder.begin(role=role)
    learned.begin()
    global _after
    _after = AfterResponse(limit)
    if leaves:
        hooks.at_exit(lambda status: _leave(uwsgi, status))


def role_of(uwsgi: Any) -> int | None:
    """The role of this process on the scoreboard; None for uWSGI's own processes."""
    if uwsgi.worker_id():
        return layout.PLAIN
    # A build without mules or spooler lacks the function.
    if getattr(uwsgi, "mule_id", int)():
        return layout.MULE
    return layout.SPOOLER if getattr(uwsgi, "i_am_the_spooler", int)() else None


def after_request(uwsgi: Any) -> None:
    """Count the response, collect if that pays, and end the worker if it has passed its limit.

    In the worker. It ends as at a graceful reload: uWSGI's master replaces it.
    """
    watch = _after()
    if watch is not None:
        log.info("recycling worker %s: %s", uwsgi.worker_id(), watch)
        os.kill(os.getpid(), signal.SIGHUP)


def _leave(uwsgi: Any, status: int) -> None:
    """Run the exit of uWSGI's Python plugin, except the finalization.

    Source: uWSGI 2.0.31 plugins/python/python_plugin.c, uwsgi_python_atexit; CPython 3.14
    Python/pylifecycle.c, Py_FinalizeEx.
    """
    if is_busy(uwsgi):
        return  # uWSGI finalizes nothing either: the request holds the interpreter
    try:
        hook = getattr(uwsgi, "atexit", None)
        if hook is not None:
            hook()
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    exit.flush()
    hooks.flush_c_streams()
    os._exit(status)


def is_busy(uwsgi: Any) -> bool:
    """Whether this worker was serving a request when it was asked to end."""
    status = next((w["status"] for w in uwsgi.workers() if w["id"] == uwsgi.worker_id()), b"")
    return status in (b"busy", "busy")
