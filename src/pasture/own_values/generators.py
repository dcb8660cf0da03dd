"""Generators of random numbers that are each worker's own, and that a fork copies.

A server that loads the application in each worker seeds them in each, from the kernel's entropy.
Where pasture loads it in the parent, they are seeded once. So pasture loads it in an `observed`
block, and each child of this process seeds again the generators that seeded themselves there. A
generator that the program has seeded stays as it is, as in workers that load for themselves: so
does one that the program has made outside of a block, whose copies plain children share. Requests
of a warm-up, and of a worker that becomes a mold, are in a block, too.

The origin of a seed is not guessed: `seeding` and `numpy_generators` describe the proof.

Not owned: `random` itself, which CPython seeds in each child, even if the program has seeded it;
seeds that C or Rust code draws.
"""

from __future__ import annotations

import os
import random
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, ModuleType

from pasture.own_values import numpy_generators
from pasture.own_values.seeding import Observer, seed_of_torch, torch_generator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pasture.reasons import Hazard

_Generate = Callable[[], tuple[bytes, int | None]]

_LIBRARY = f"{os.path.dirname(os.__file__)}{os.sep}"  # noqa: PTH120
_WAITS = "wait _wait_for_tstate_lock join select accept _recv _worker _handle_tasks dequeue".split()
"""Functions of the library in which threads wait; in its others C code may run what a user gave."""
_observer = Observer()
_of_numpy = numpy_generators.Found()
_is_torch_renewed = False
_owner = 0
_was_free = True
_modules = 0  # before the first load
_has_loaded = False
_hazards: tuple[Hazard, ...] = ()


def observe() -> None:
    """Observe from now on, in this process and those that it forks, until `forget`. Calls nest."""
    global _modules
    if not _observer.depth:
        _modules = len(sys.modules)
        _observer.install()
    _observer.depth += 1


def forget() -> None:
    """Stop observing."""
    _observer.depth -= 1
    if not _observer.depth:
        _observer.remove()


@contextmanager
def observed(is_wanted: bool = True) -> Iterator[None]:
    """Load in the `with` block what each worker would load itself.

    In the parent. A fork in the block leaves all generators as they are.
    """
    if not is_wanted:
        yield
        return
    observe()
    try:
        yield
    finally:
        settle()
        forget()


def settle() -> None:
    """Have each child renew generators that seeded themselves while observed. Before the seal."""
    global _owner, _has_loaded, _hazards, _of_numpy, _is_torch_renewed
    if not _owner:
        os.register_at_fork(before=_look_at_threads, after_in_child=renew_in_child)
    _owner = os.getpid()
    _has_loaded = _has_loaded or len(sys.modules) > _modules
    found = []
    _of_numpy = numpy_generators.find(_observer.entropy, _of_numpy)
    if _of_numpy.is_seeded and not _observer.had_numpy:
        found.append(_seeded("numpy", "numpy.random.seed"))
    noted = _observer.torch_seed
    _is_torch_renewed = noted is not None and noted == seed_of_torch()
    if noted is not None and not _is_torch_renewed:
        found.append(_seeded("torch", "torch.seed"))
    _hazards = tuple(found)
    _observer.keep(_of_numpy.entropy)


def settle_observed() -> None:
    """`settle`, if this process is still observed."""
    if _observer.depth:
        settle()


def hazards() -> tuple[Hazard, ...]:
    """Generators of the whole process that the program has seeded while it was observed."""
    return _hazards


def renew(*, other_machine: bool = False) -> None:
    """Seed again the generators that seeded themselves before this process was copied. In the copy.

    The hook of a fork calls this in children. Call it if Python did not make the copy, or if
    another process came between.
    """
    global _of_numpy
    for generator in _observer.made:
        random.Random.seed(generator)
    _of_numpy = _of_numpy.renew()
    _observer.keep(_of_numpy.entropy)
    if _is_torch_renewed:
        _observer.torch_seed = torch_generator().seed()
    if not (_has_loaded or other_machine):
        return
    if "uuid" in sys.modules:  # which may have made an identifier
        _renew_uuid(sys.modules["uuid"], other_machine)
    if "_sqlite3" in sys.modules and _was_free and _is_sqlite_free():
        _renew_sqlite(sys.modules["_sqlite3"])


def renew_in_child() -> None:
    """Renew those of the parent that settled them. Forks of Python call it, those of C do not."""
    # A worker's own children share its generators, as without pasture.
    if os.getppid() == _owner:
        renew()


def _seeded(library: str, call: str) -> Hazard:
    from pasture.reasons import Hazard, Reason

    hint = f"for one of its own in each: os.register_at_fork(after_in_child={call})"
    return Hazard(
        f"{library}'s generator, which the program has seeded,",
        hint,
        Reason.GENERATOR,
        fate="is the same in all workers",
    )


def _look_at_threads() -> None:
    global _was_free
    _was_free = "_sqlite3" not in sys.modules or _is_sqlite_free()


def _is_sqlite_free() -> bool:
    """Whether no other thread can be in SQLite: its locks would stay locked in a child.

    Where C code has forked, the parent's threads are still listed in the child.
    """
    frames = sys._current_frames().items()
    return all(_waits(frame.f_code) for thread, frame in frames if thread != get_ident())


def _waits(code: CodeType) -> bool:
    file, name = code.co_filename, code.co_name
    return name in _WAITS and file.startswith(_LIBRARY) and "-packages" not in file


def _renew_sqlite(library: ModuleType) -> None:
    """SQLite seeds its generator again when another process opens a file: os_unix.c, `unixOpen`."""
    with suppress(library.Error):
        library.connect("file:/dev/null?mode=ro", uri=True).close()


_from_library: _Generate | None = None
_MULTICAST = 1 << 40


def _renew_uuid(uuid: ModuleType, other_machine: bool) -> None:
    """Have this process's UUIDs of versions 1, 6 and 7 differ from those of other copies.

    The C library of version 1 has a clock sequence, which no other process may have.
    """
    global _from_library
    held = vars(uuid)
    for name in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if name in held:
            held[name] = None
    node = held.get("_node")
    if node is not None and (other_machine or node & _MULTICAST):  # random, not a card's
        held["_node"] = None
    generate: _Generate | None = held.get("_generate_time_safe")
    if generate is not None:
        _from_library = _from_library or generate
        held["_generate_time_safe"] = _with_clock_sequence(_from_library, os.urandom(2))


def _with_clock_sequence(generate: _Generate, drawn: bytes) -> _Generate:
    high, low = drawn[0] & 0x3F, drawn[1]

    def generate_time_safe() -> tuple[bytes, int | None]:
        data, status = generate()
        if status == 0:  # uuidd synchronizes all processes
            return data, status
        return bytes((*data[:8], data[8] ^ high, data[9] ^ low, *data[10:])), status

    return generate_time_safe
