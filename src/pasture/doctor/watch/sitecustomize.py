"""Put in front of a program's own sitecustomize by `pasture doctor -- command`.

Notes who calls gc.enable(), one line a caller, in the file that PASTURE_DOCTOR_GC_FILE
names; calls on as before. Imports nothing that the program would not import anyway.
"""

import gc
import os
import sys

_enable = gc.enable
_told: set[str] = set()


def enable() -> None:
    """As gc.enable(), and notes the caller."""
    frame = sys._getframe(1)
    caller = f"{frame.f_globals.get('__name__')} ({frame.f_code.co_filename}:{frame.f_lineno})"
    if caller not in _told:
        _told.add(caller)
        try:
            with open(os.environ["PASTURE_DOCTOR_GC_FILE"], "a") as file:  # noqa: PTH123
                file.write(caller + "\n")
        except (KeyError, OSError):
            pass
    _enable()


gc.enable = enable

# The one that this one hides.
_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]  # noqa: PTH100
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError:
    pass
