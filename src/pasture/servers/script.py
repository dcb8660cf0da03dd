"""`python -m pasture.servers.script ARGS`: what `pasture run -- python ARGS` becomes.

Owns being the interpreter's command line: a script, a directory, `-m MODULE` or `-c CODE`
runs as `__main__` itself, with the `sys.argv` and `sys.path` that it would have had. An engine that
the program starts seals by itself.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from pasture.errors import PastureError, UsageError
from pasture.log_lines import log
from pasture.sealing.gc_settings import begin_loading
from pasture.servers import import_watch, one_process, spawning
from pasture.serving import restart  # noqa: F401  notes how this was started
from pasture.serving.sealer import has_sealed, seal_before_forks, show_log
from pasture.serving.settings import read_environment
from pasture.trust.untrusted_text import complain

_FORKSERVER = "pasture.servers.logged_forkserver"


def run(arguments: Sequence[str]) -> None:
    """Run a program as Python would with these arguments, sealed before it forks workers.

    Raises a PastureError where a variable makes no sense, or there is no such program.
    """
    settings = read_environment()
    show_log()
    begin_loading(settings.policy)
    seal_before_forks(settings, keeps_connections=True, after=settings.after, yields=True)
    seal_forkservers()
    if settings.fork_spawned:
        spawning.install()
    atexit.register(_complain_if_nothing_was_sealed, os.getpid())
    if not settings.after:  # else the user says when
        import_watch.watch(arguments)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")):
        raise UsageError(
            f"cannot run python {' '.join(arguments)}".rstrip(),
            hint="give a script, -m MODULE or -c CODE; options of Python's own go into "
            "variables, as PYTHONUNBUFFERED=1",
        )
    first, *rest = arguments
    if first == "-m":
        _run_module(rest)
    elif first == "-c":
        _become(["-c", *rest[1:]], "", "")
        _execute(compile(rest[0] if rest else "", "<string>", "exec"))
    else:
        _run_script(first, rest)


def _complain_if_nothing_was_sealed(pid: int) -> None:
    """At the exit. A server that fits no engine, and that forks nothing, would be silent."""
    server: Any = forkserver._forkserver  # its children are forked elsewhere
    known = has_sealed() or one_process.has_said or spawning.has_forked()
    known = known or server._forkserver_pid is not None
    if os.getpid() == pid and not known:
        log.warning("nothing was sealed: the program forked no process")


def seal_forkservers() -> None:
    """Have a forkserver that this program starts sealed before it forks, whatever it preloads.

    It is multiprocessing's default from CPython 3.14 on.
    """
    server_class: Any = forkserver.ForkServer
    ensure_running = server_class.ensure_running

    def ensure_sealed(server: Any) -> None:
        modules = server._preload_modules
        if _FORKSERVER not in modules:
            server._preload_modules = [*modules, _FORKSERVER]
        ensure_running(server)

    server_class.ensure_running = ensure_sealed


def _run_module(arguments: Sequence[str]) -> None:
    if not arguments:
        raise UsageError("python -m needs the name of a module")
    sys.argv[:] = arguments
    # As `python -m`, `cProfile -m` and `trace -m` do it: in the real __main__.
    runpy._run_module_as_main(arguments[0], alter_argv=True)  # type: ignore[attr-defined]


def _run_script(script: str, arguments: Sequence[str]) -> None:
    path = Path(script)
    if path.is_dir() or path.suffix in (".zip", ".pyz"):
        sys.argv[:] = [script, *arguments]
        sys.path[0] = script
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot open {script}: {error.strerror}") from None
    _become([script, *arguments], str(path.resolve().parent), script)
    _execute(compile(source, script, "exec", dont_inherit=True))


def _become(argv: Sequence[str], folder: str, file: str) -> None:
    """Have `__main__` and `sys` look as they do for a script or `-c`."""
    sys.argv[:] = argv
    sys.path[0] = folder
    namespace = _main().__dict__
    for name in [name for name in namespace if not name.startswith("__")]:
        del namespace[name]
    namespace.update(__doc__=None, __spec__=None, __package__=None, __cached__=None)
    if file:
        namespace["__file__"] = file
    else:
        namespace.pop("__file__", None)


def _main() -> ModuleType:
    return sys.modules["__main__"]


def _execute(code: CodeType) -> None:
    exec(code, _main().__dict__)


def main() -> None:
    """Run the program that the process's own arguments name."""
    try:
        run(sys.argv[1:])
    except PastureError as error:
        sys.exit(complain(error))


if __name__ == "__main__":
    # Not the functions above: their names go when the program becomes `__main__`.
    from pasture.servers.script import main as start

    start()
