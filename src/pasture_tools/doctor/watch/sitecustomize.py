"""Put in front of a program's own sitecustomize by `pasture doctor -- command`.

Notes who calls gc.enable(), which threads and pending lazy imports there are at a fork, and
what a forked process imports: a line each, in the file that PASTURE_DOCTOR_FILE names; calls on
as before. Imports nothing that the program would not import anyway. `pasture_tools.doctor.notes`
reads the file.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_enable = gc.enable
_reported: set[str] = set()


def _write(*words: object) -> None:
    line = "\t".join(repr(str(word))[1:-1] for word in words)
    if line in _reported:
        return
    _reported.add(line)
    try:
        with open(os.environ["PASTURE_DOCTOR_FILE"], "a") as file:  # noqa: PTH123
            file.write(line + "\n")
    except (KeyError, OSError):
        pass


def enable() -> None:
    """As gc.enable(), and notes the caller."""
    frame = sys._getframe(1)
    _write("gc", f"{frame.f_globals.get('__name__')} ({frame.f_code.co_filename}:{frame.f_lineno})")
    _enable()


def _write_threads() -> None:
    threading = sys.modules.get("threading")
    for thread in list(getattr(threading, "_active", {}).values()):
        code = getattr(thread, "_target", None) or type(thread)
        module = str(getattr(code, "__module__", ""))
        _write("thread", thread.native_id, thread.name, module)
    for name in list(getattr(sys, "lazy_modules", ())):
        module, _, attribute = name.rpartition(".")
        if name not in sys.modules and not hasattr(sys.modules.get(module), attribute):
            _write("lazy", name)


class _Imports:
    """A finder that asks those behind it, and notes what they found."""

    @staticmethod
    def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        for finder in list(sys.meta_path):
            find = None if finder is _Imports else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:  # a module that is not there costs nothing
                _write("import", os.getpid(), name)
                return spec
        return None


def _watch_imports() -> None:
    if _Imports not in sys.meta_path:
        sys.meta_path.insert(0, _Imports)


gc.enable = enable
# Hooks before a fork are called last first: what other hooks stop there is gone by then.
os.register_at_fork(before=_write_threads, after_in_child=_watch_imports)

# The sitecustomize that this one hides.
_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]  # noqa: PTH100
_this = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError:
    if _this is not None:  # the import of this one looks for it there
        sys.modules["sitecustomize"] = _this
