"""The process that is copied: it seals its heap, and stops; what comes to life becomes a program.

Owns what of pasture lies in an image: what a program's begin and end refer to. All else that has
loaded modules goes before the seal. Invariant: nothing of a kept module refers to one that is gone.
"""

from __future__ import annotations

import os
import posix
import sys
import traceback
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import pasture
from pasture.interpreter import native
from pasture.proc.parent import end_with_parent
from pasture.sealing import exit, gc_settings
from pasture.sealing.policy import POLICIES
from pasture.sealing.report import hide_report
from pasture.sealing.steps import HEAP_STEPS, StepResult
from pasture_image.inside import begin, eager, end, loops, program

_OWN = ("pasture", "pasture_image")


def wait(inherited: list[int], report_to: int, python: str, parent: int) -> NoReturn:
    """Seal, and wait to be copied. What comes to life becomes a program."""
    try:
        end_with_parent(parent)
        for number in inherited:
            posix.close(number)
        begin.prepare(python)
        exit.take_over_files()
        _close()
        hide_report()
        eager.end()
        _forget_builder()
        report = _seal()
        address, _ = native().frozen_facts()
        loaded = ",".join(sys.modules)
        os.write(report_to, f"{address} {report}\n{loaded}\n".encode("utf-8", "replace"))
        posix.close(report_to)
        loops.prepare()
    except BaseException as error:
        _end(error)
    begin.begin(*_freeze())


def _close() -> None:
    """What must not cross a fork must not come into an image, either."""
    from pasture.fork_safety import close
    from pasture.sealing.seal import HAS_LAZY_IMPORTS

    if HAS_LAZY_IMPORTS:
        from pasture.warmup import lazy_imports

        lazy_imports.resolve(refusal=lambda: None)
    close.close_connections()


def _seal() -> str:
    """Take the steps of a seal; what they have done, in words."""
    gc_settings.remember_thresholds()
    end.arm()
    exit.watch()
    objects = 0
    with gc_settings.paused():
        for name in POLICIES["seal"].heap:
            try:
                done = HEAP_STEPS[name].work()
            except NotImplementedError:  # not on each interpreter
                continue
            counts = done.counts if isinstance(done, StepResult) else done
            objects += counts.get("objects", 0) if name == "immortalize" else 0
        exit.note_frozen_files()
    return f"{objects:,} objects immortal"


def _forget_builder() -> None:
    """Leave modules of pasture out that no program needs, unless others refer to some."""
    loaded = {name: module for name, module in sys.modules.items() if _is_own(name)}
    others = (module for name, module in sys.modules.items() if not _is_own(name))
    if any(_named(module) for module in others if issubclass(type(module), ModuleType)):
        return
    needed, todo = {*_OWN}, [begin.__name__]
    while todo:
        name = todo.pop()
        if name not in needed and name in loaded:
            needed |= {name, name.rpartition(".")[0]}
            todo += _named(loaded[name])
    for name in pasture._AT_FIRST_USE:  # imports it again
        vars(pasture).pop(name, None)
    for name in loaded.keys() - needed:
        above, _, attribute = name.rpartition(".")
        vars(loaded[above]).pop(attribute, None)
        del sys.modules[name]


def _is_own(name: str) -> bool:
    return name.partition(".")[0] in _OWN


def _named(module: Any) -> set[str]:
    """Modules of pasture that are in another one's names, or have made what is."""
    found = set()
    for value in list(program.names_of(module).values()):
        if type(value) is ModuleType:
            found.add(value.__name__)
        elif type(value) is FunctionType or issubclass(type(value), type):
            found.add(str(value.__module__))
    return set(filter(_is_own, found))


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
        traceback.print_exception(error)
    os._exit(1)
