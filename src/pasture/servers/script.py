"""`python -m pasture.servers.script ARGS`: what `pasture run -- python ARGS` becomes.

Owns the choice of the forks that are sealed. The interpreter's own main function runs the program
(`pasture.main_program`). An engine that the program starts seals itself.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from multiprocessing import forkserver
from typing import Any

from pasture import main_program
from pasture.errors import PastureError, UsageError
from pasture.log_lines import log
from pasture.sealing.gc_settings import begin_loading
from pasture.servers import import_watch, one_process
from pasture.serving import restart, spawning
from pasture.serving.sealer import has_sealed, is_off, seal_before_forks, show_log
from pasture.serving.settings import read_environment
from pasture.trust.untrusted_text import complain


def run(arguments: Sequence[str]) -> None:
    """Run a program as Python would with these arguments, sealed before it forks workers.

    Raises a PastureError if a variable is wrong, or the program does not exist.
    """
    if not is_off():
        _seal_forks_of(arguments)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")):
        raise UsageError(
            f"cannot run python {' '.join(arguments)}".rstrip(),
            hint="give a script, -m MODULE or -c CODE; options of Python's own go into "
            "variables, as PYTHONUNBUFFERED=1",
        )
    _run_program(*arguments)


def _seal_forks_of(arguments: Sequence[str]) -> None:
    settings = read_environment()
    show_log()
    begin_loading(settings.policy)
    seal_before_forks(settings, keeps_connections=True, after=settings.after, yields=True)
    spawning.seal_forkservers()
    if settings.fork_spawned:
        spawning.install()
    atexit.register(_complain_if_nothing_was_sealed, os.getpid())
    if not settings.after:  # else the user names the moment
        import_watch.watch(arguments)


def _run_program(first: str, *rest: str) -> None:
    """Run it by the interpreter's own main function, which ends the process."""
    if first in ("-m", "-c") and not rest:
        raise UsageError(f"python {first} needs {'a module' if first == '-m' else 'code'}")
    if first in ("-m", "-c"):
        what, argv = rest[0], [first, *rest[1:]]
    else:
        what, argv = first, [first, *rest]
        if not os.access(first, os.R_OK):
            raise UsageError(f"cannot open {first}")
    if not sys.flags.safe_path:
        del sys.path[0]  # that of `-m`; the program's folder comes in its place
    sys.modules["__main__"] = main_program.made_module()
    main_program.run(first if first in ("-m", "-c") else "", what, argv)


def _complain_if_nothing_was_sealed(pid: int) -> None:
    server: Any = forkserver._forkserver  # its children are forked elsewhere
    if restart.is_due or restart.why_plain is not None:
        return
    known = has_sealed() or one_process.has_said or spawning.has_forked
    known = known or server._forkserver_pid is not None
    if os.getpid() == pid and not known:
        log.warning("nothing was sealed: the program forked no process")


def main() -> None:
    """Run the program that the process's own arguments name."""
    try:
        run(sys.argv[1:])
    except PastureError as error:
        sys.exit(complain(error))


if __name__ == "__main__":
    # The program's `__main__` replaces this module and its functions.
    from pasture.servers.script import main as start

    start()
