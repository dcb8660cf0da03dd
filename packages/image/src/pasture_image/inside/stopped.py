"""The process that is copied: it seals its heap, and stops; what comes to life becomes a program.

Owns what of pasture lies in an image: what a program's begin and end refer to. All else that has
loaded modules goes before the seal. Invariant: nothing of a kept module refers to one that is gone.
"""

from __future__ import annotations

import gc
import os
import posix
import sys
from collections.abc import Collection
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

from pasture.interpreter import native
from pasture.proc.parent import end_with_parent
from pasture.sealing import containers, exit, gc_settings
from pasture_image.inside import begin, eager, end, loops

_INSIDE = "pasture_image.inside"
_NO_LIBRARIES = {"__main__", "pasture", "pasture_image"}


def wait(
    inherited: list[int], report_to: int, python: str, parent: int, kept: Collection[str]
) -> NoReturn:
    """Seal, and wait to be copied. What comes to life becomes a program.

    Args:
        inherited: descriptors to be closed.
        report_to: descriptor that gets an address and names once it is about to stop.
        python: path of the interpreter that it stands for.
        parent: its parent's id.
        kept: names of the modules that were there once all was loaded.
    """
    try:
        end_with_parent(parent)
        for number in inherited:
            posix.close(number)
        begin.prepare(python)
        exit.take_over_files()
        _close()
        eager.end()
        _forget_builder(kept)
        _seal()
        address, _ = native().frozen_facts()
        loaded = ",".join(sys.modules)
        os.write(report_to, f"{address}\n{loaded}\n".encode("utf-8", "replace"))
        posix.close(report_to)
        loops.prepare()
    except BaseException as error:
        _end(error)
    begin.begin(*_freeze())


def _close() -> None:
    """What must not cross a fork must not come into an image, either."""
    if sys.version_info >= (3, 15):
        from pasture.warmup import lazy_imports

        lazy_imports.resolve(refusal=lambda: None)
    loaded = {name.partition(".")[0] for name in sys.modules}
    if loaded - sys.stdlib_module_names - _NO_LIBRARIES:
        from pasture.fork_safety import close

        close.close_connections()
    report = sys.modules.get("pasture.sealing.report")
    if report is not None:
        report.hide_report()


def _seal() -> None:
    """Take the steps of the policy `seal`."""
    gc_settings.remember_thresholds()
    end.arm()
    exit.watch()
    extension = native()
    # The cache of types holds names that nothing else does: programs would free them one by one.
    forget = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # 3.12
    steps = (
        *(forget, gc.collect, extension.precompute_types, extension.gather_code),
        *(containers.hand_to_extension, extension.immortalize),
        *(gc.freeze, extension.unfreeze_mortal, gc.collect, extension.trim),
        *(extension.plug_malloc, extension.plug_pymalloc),
    )
    with gc_settings.paused():
        for step in steps:
            with suppress(NotImplementedError):  # not on each interpreter
                step()
        exit.note_frozen_files()


def _forget_builder(kept: Collection[str]) -> None:
    """Leave out what has loaded modules, and what came after them."""
    needed = {one.__name__ for one in (begin, *vars(begin).values()) if type(one) is ModuleType}
    for name in [*sys.modules]:
        above, _, attribute = name.rpartition(".")
        is_builders = above == _INSIDE and name not in needed
        if is_builders or (name.startswith("pasture.") and name not in kept):
            if above in sys.modules:
                vars(sys.modules[above]).pop(attribute, None)
            del sys.modules[name]


def _freeze() -> Any:
    """Stop; what comes to life gets what the extension has found out of its own start."""
    try:
        return native().freeze()
    except BaseException as error:
        _end(error)


def _end(error: BaseException) -> NoReturn:
    """End the process that is copied, which cannot be; the builder says so, too."""
    if isinstance(error, (MemoryError, OSError)):
        print(f"what is copied cannot go on: {error!r}", file=sys.stderr, flush=True)
    else:
        import traceback

        traceback.print_exception(error)
    os._exit(1)
