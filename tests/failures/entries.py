"""The entry points that failures are tried in, and what has to hold after each failure."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import datetime
import gc
import importlib.util
import os
import select
import socket
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pasture
from pasture import _native
from pasture.errors import PastureError
from pasture.sealing import exit

ERRORS = (MemoryError, OSError, PastureError, NotImplementedError)


def nothing() -> None:
    pass


class Node:
    def __init__(self, value: object = None) -> None:
        self.value = value
        self.self = self


shadow: list[Any] = []
"""Objects of many kinds, which must be the same after each failure."""


def make_shadow() -> None:
    shadow.extend({"number": n, "list": [n, str(n)], "node": Node((n, {n}))} for n in range(300))


def shadow_is_whole() -> bool:
    return all(
        row["number"] == n
        and row["list"] == [n, str(n)]
        and row["node"].value == (n, {n})
        and row["node"].self is row["node"]
        for n, row in enumerate(shadow)
    )


def state() -> tuple[Any, ...]:
    """What no entry point may leave changed."""
    return gc.isenabled(), gc.get_threshold(), len(gc.callbacks), sys.gettrace()


class Child:
    """A forked process that leaves a file open, and exits with 42."""

    WRITTEN = "written"
    status: int | None

    def prepare(self) -> None:
        self.file, self.status = Path(self.WRITTEN).open("w"), None
        self.said_before = os.lseek(2, 0, os.SEEK_END)

    def fork(self, end: Callable[[], Any] = lambda: sys.exit(42)) -> None:
        pid = os.fork()
        if pid == 0:
            self.file.write("whole")
            end()
        self.status = os.waitpid(pid, 0)[1]

    def wrong(self, allowed: tuple[int, ...] = (), silent: tuple[int, ...] = ()) -> list[str]:
        """It ends as any process would. Another status, of the `allowed`, and a lost text are said
        on stderr, but for a `silent` one."""
        self.file.close()
        if self.status is None:
            return []
        text = Path(self.WRITTEN).read_text()
        words = Path("/proc/self/fd/2").read_bytes()[self.said_before :].decode(errors="replace")
        fair = self.status & 0xFF == 0 and self.status >> 8 in allowed
        wrong = []
        fair = fair and (bool(words) or self.status >> 8 in silent)
        if self.status != 42 << 8 and not fair:
            wrong.append(f"a child that exits with 42 ended with {self.status:#x}: {words[-800:]}")
        if text != "whole" and not (words and allowed):
            wrong.append(f"{LOST}, {words[-800:]!r} is on stderr")
        return wrong


LOST = "what a child wrote is lost"
child = Child()


def child_ends(ends_whole: bool) -> list[str]:
    """A step of a seal alone does not arm the end that writes what files of sealed objects hold."""
    child.prepare()
    child.fork()
    wrong = child.wrong()
    return wrong if ends_whole else [one for one in wrong if not one.startswith(LOST)]


def heap_is_sound(ends_whole: bool = True) -> list[str]:
    """Objects, both collectors, and a child."""
    wrong = [] if shadow_is_whole() else ["objects have changed"]
    dead = weakref.ref(Node())
    gc.collect()
    if dead() is not None:
        wrong.append("gc.collect() leaves garbage")
    dead = weakref.ref(Node())
    found = pasture.collect()
    if dead() is not None and sys.version_info[:2] != (3, 12):  # there an unnoticed end stays so
        wrong.append(f"pasture.collect() leaves garbage, and finds {found}; {pasture.gc.history()}")
    return wrong + child_ends(ends_whole)


@dataclass(frozen=True)
class Entry:
    run: Callable[[], Any]
    prepare: Callable[[], Any] = nothing
    again: Callable[[], Any] = nothing  # before each run
    look: Callable[[], list[str]] = list  # what is wrong after a run with a failure
    after: Callable[[], Any] = nothing  # raises unless a run without one has done its work
    may_raise: tuple[type[BaseException], ...] = ERRORS
    can_repeat: bool = True
    changes_state: bool = False
    ends_whole: bool = True
    kinds: tuple[str, ...] = ("places", "memory", "malloc", "calls")

    def check(self) -> list[str]:
        wrong = []
        try:
            self.again()
            self.run()
            self.after()
        except (NotImplementedError, PastureError):
            pass
        except Exception as error:
            wrong.append(f"it does not work any more: {error!r}")
        return wrong + heap_is_sound(self.ends_whole)


def imports(entry: Entry) -> list[str]:
    """Modules that a run imports: prepared, so that failures of imports are CPython's own."""
    before = set(sys.modules)
    entry.prepare()
    entry.again()
    with contextlib.suppress(Exception):
        entry.run()
    entry.check()
    return [name for name in sys.modules if name not in before and name != "__mp_main__"]


def seal_policy(policy: str) -> Entry:
    def run() -> None:
        report = pasture.seal(policy)
        last.append(report.sealed or bool(report.reason))

    def after() -> None:
        assert last[-1]

    return Entry(run, make_shadow, after=after, can_repeat=False)


last: list[Any] = []


def native(name: str, *arguments: Any, **how: Any) -> Entry:
    return Entry(lambda: getattr(_native, name)(*arguments), make_shadow, **how)


def immortalize(prepare: Callable[[], Any]) -> Entry:
    return Entry(_native.immortalize, prepare, can_repeat=False, ends_whole=False)


def garbage() -> None:
    for n in range(50):
        Node(Node(n))


def forget_layout() -> None:
    """On a check build the layouts are verified again."""
    if hasattr(_native, "shift_field"):
        _native.shift_field(0, 0)


def run_snapshot() -> None:
    file = os.open("snapshot", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _native.write_snapshot(file)
    finally:
        os.close(file)


def fickle(one: object) -> tuple[object, ...]:
    return (one,)


def watched_collect() -> None:
    _native.watch_collections(True)
    try:
        gc.collect()
    finally:
        _native.watch_collections(False)


PLAIN_STATUSES = (1, 2, 120)
"""Of a process without pasture that has no memory at its end, or for a file that it runs."""


def ends_of_a_child(
    prepare: Callable[[], Any],
    end: Callable[[], Any] = lambda: sys.exit(42),
    silent: tuple[int, ...] = (),
) -> Entry:
    def after() -> None:
        if wrong := child.wrong():
            raise AssertionError(wrong)

    return Entry(
        lambda: child.fork(end),
        prepare,
        child.prepare,
        lambda: child.wrong(PLAIN_STATUSES, silent),
        after,
        can_repeat=False,
    )


def sealed() -> None:
    make_shadow()
    pasture.seal()


def sealed_with_a_file() -> None:
    files.append(Path("sealed").open("w"))
    sealed()
    gc.freeze()


files: list[Any] = []


def show_all() -> None:
    gc.get_objects()
    gc.get_referrers(shadow)


def hold_from_outside() -> None:
    """More than wait for their turn in a batch."""
    for one in [[n] for n in range(5000)]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    make_shadow()


def take_huge_arenas() -> None:
    _native.use_huge_arenas()
    arenas[:] = [b"x" * (400 + n % 2) for n in range(200_000)]  # 80 MB of small blocks


arenas: list[bytes] = []


def refute(part: str) -> Callable[[], None]:
    """On a check build: a field is somewhere else, so that what needs it is left out."""

    def prepare() -> None:
        make_shadow()
        if hasattr(_native, "shift_field"):
            rows = [part in parts for *_, parts, _ in _native.private_fields()]
            _native.shift_field(rows.index(True), 8)
            _native.check_layout()

    return prepare


def ask_for_code() -> None:
    with contextlib.suppress(NotImplementedError):
        _native.code_that_ran()


class Bag:
    """What is in it is known by its own function alone, and in no list of the collector's."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.inner = (str(name), f"{name} in a tuple")
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(self.inner))


class Crate(bytes):
    __slots__ = ()


def items_of(bag: Bag) -> list[object]:
    return [Crate(b"of a bag"), f"{bag.name} of a bag", bag.inner]


def items_of_crate(crate: Crate) -> list[object]:
    return [f"of a crate {crate!r}"]


class Bin(list[object]):
    __slots__ = ()


def unaligned(one: Bin) -> Bin:
    """The same, where no allocator of the interpreter's puts it."""
    api, size = ctypes.pythonapi, type(one).__basicsize__
    memory = ctypes.create_string_buffer(GC_HEAD + size + 16)
    at = (ctypes.addressof(memory) + 15 & -16) + 8 + GC_HEAD
    ctypes.memmove(at, id(one), size)
    other: Bin = ctypes.cast(at, ctypes.py_object).value
    for held in (one, other, Bin, memory):
        api.Py_IncRef(ctypes.py_object(held))
    api.PyObject_GC_Track(ctypes.py_object(other))
    return other


GC_HEAD = 16


def make_bags() -> None:
    make_shadow()
    _native.register_container(Bag, items_of)
    _native.register_container(Crate, items_of_crate)
    _native.register_container(Bin, list)
    bags.extend(Bag(n) for n in range(1000, 1010))
    bags.extend(unaligned(Bin([n])) for n in range(2))
    bags.append(seen_by_looks())
    bags.append([Large() for _ in range(100)])
    watchers.extend(weakref.ref(one, print) for one in bags[-1])


bags: list[Any] = []
watchers: list[Any] = []


def seen_by_looks() -> list[Any]:
    """What holds what ends, in such an order that the first look at all, from the end, finds the
    lowest one alone, and the next look the one in the middle."""
    low, middle, high = sorted(([] for _ in range(3)), key=id)
    high.append(Zone())
    low.append(high)
    middle.append(low)
    inner = untracked((low,))
    return [low, middle, high, untracked((inner,)), inner]  # it is met from the end


class Zone(datetime.tzinfo):
    """What refers to one is in no list of the collector's."""

    def __del__(self) -> None:
        assert self


def monitor() -> None:
    """Instructions that an event hides are looked at one by one."""
    make_shadow()
    sys.monitoring.use_tool_id(3, "failures")
    sys.monitoring.set_events(3, sys.monitoring.events.PY_START)
    shadow_is_whole()


class Large(Zone):
    """So that its memory is malloc's, far from that of others."""

    __slots__ = tuple(f"slot_{n}" for n in range(100))


class Stamp(datetime.datetime):
    __slots__ = ()


def make_owners() -> None:
    """More than are kept, so that those near what ends are, and chains of them."""
    zone, chain = Zone(), Node()
    for _ in range(20):
        chain = Node([chain])
    chain.value = Zone()
    watchers.append(weakref.ref(chain.value, print))
    kinds = (Stamp, datetime.datetime)
    zones = [kind(2000, 1, n, tzinfo=zone) for n in range(1, 20) for kind in kinds]
    _native.register_owner(Stamp, zones[0], zone)
    owners.extend(([[zone] for _ in range(2000)], zones, [[zone, one] for one in zones], chain))


owners: list[Any] = []


def untracked(one: tuple[object, ...]) -> tuple[object, ...]:
    ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(one))
    return one


def make_all() -> None:
    make_shadow()
    make_owners()


def seal_again() -> None:
    """What was sealed has got more since."""
    rows: list[list[Any]] = [[n] for n in range(300)]
    owners.append(rows)
    sealed()
    for row in rows:
        row.append(Node())
    make_owners()


def seal_steps() -> None:
    gc.freeze()
    _native.immortalize()


def finalizes() -> None:
    """As where a program's last work fails: the interpreter finalizes, and what was sealed ends."""
    sys.modules["__main__"].ends = End()  # type: ignore[attr-defined]
    exit.before_leaving(lambda flush: False)
    sys.exit(42)


def finalizes_again() -> None:
    """A finalizer that the last collection runs takes out what pasture has put into the modules."""
    takes = Takes()
    takes.self = takes
    del takes
    finalizes()


class End(Node):
    def __del__(self) -> None:
        assert self.self is self


class Takes:
    self: Takes

    def __del__(self) -> None:
        sys.modules.pop("pasture.end", None)


def runs_main(words: list[str], command: str | None, module: str | None, file: str | None) -> None:
    child.file.flush()  # frames that run now hold it, and never return
    _native.find_arguments()
    _native.run_main(words, ["python", *words], True, command, module, file)


def runs_command() -> None:
    runs_main(["-c", "word"], "import sys; sys.exit(42)", None, None)


def write_program() -> None:
    make_shadow()
    Path("exits_with.py").write_text("import sys; sys.exit(42)")
    sys.path.insert(0, str(Path.cwd()))


def runs_module() -> None:
    runs_main(["-m"], None, "exits_with", None)


def runs_file() -> None:
    runs_main(["exits_with.py"], None, None, "exits_with.py")


def wake_here() -> None:
    import failing  # there where requests fail

    failing.wakes(_native.frozen_facts()[0])


def freeze() -> None:
    argv, envp, *_ = _native.freeze()
    assert argv == [b"python", b"word"]
    assert envp


def begin_life() -> None:
    """As where a program has ended the interpreter and initialized it again: its dictionary is
    made for the first caller that asks for it."""
    of = ctypes.pythonapi.PyInterpreterState_GetDict
    of.restype, of.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    ctypes.pythonapi.PyInterpreterState_Get.restype = ctypes.c_void_p
    interpreter = ctypes.pythonapi.PyInterpreterState_Get()
    words = (ctypes.c_void_p * (1 << 12)).from_address(interpreter)
    words[[*words].index(of(interpreter))] = None


def arm_exit() -> None:
    make_shadow()
    _native.arm_exit(lambda can_leave: (0, 0.0))


def run_by_hand() -> None:
    """What has run is registered again, soon after."""
    atexit._run_exitfuncs()
    sum(range(9))


def load_again() -> None:
    """The same extension, as a second import has it."""
    spec = _native.__spec__
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def load_in_another() -> None:
    """In a sub-interpreter the extension says why it does nothing."""
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    other = interpreters.create()
    try:
        interpreters.run_string(other, LOADS)
    finally:
        interpreters.destroy(other)


LOADS = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("pasture._native", {_native.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert module.UNSUPPORTED
"""


def turn_switches() -> None:
    """Those of an interpreter that runs, as images have them."""
    fields: Any = type(sys.flags).__match_args__
    _native.set_utf8_mode(sys.flags, fields.index("utf8_mode"), True, "strict")


def make_variables() -> None:
    Path("variables").write_bytes(b"".join(b"PASTURE_%d=%d\0" % (n, n) for n in range(9)))


GETENV = ctypes.CDLL(None).getenv


def look_at_variables() -> None:
    with Path("variables").open("rb") as file:
        _native.open_variables(file.fileno())
    try:
        GETENV(b"PASTURE_5")
        assert _native.find_variable(b"PASTURE_3") == b"3"
        _native.hide_variable(b"PASTURE_3")
        assert len(_native.variable_names()) == 8
    finally:
        _native.close_variables()


def hook(*_: object) -> None:
    """Made before: CPython 3.12.1 crashes where it has no memory for a function."""


def add_others() -> None:
    for _ in range(2):
        sys.addaudithook(lambda *_: None)


def add_and_drop_hooks() -> None:
    added = [_native.add_audit_hook(hook) for _ in range(3)]
    for is_added in added:
        if is_added:
            _native.drop_audit_hook(hook)


inherited = (-1, 0)
watching: select.epoll


def connect_out() -> None:
    global inherited, watching
    with contextlib.suppress(OSError):  # the number may have been closed: no object has it
        os.close(inherited[0])
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = socket.create_connection(server.getsockname()).detach()
    watching = select.epoll()
    watching.register(number, select.EPOLLIN)
    inherited = number, os.fstat(number).st_ino
    _native.keep_spare_end()


def is_isolated() -> list[str]:
    try:
        shares = os.fstat(inherited[0]).st_ino == inherited[1]
    except OSError:
        shares = False
    return ["the stream is still the parent's"] if shares else []


def register_hooks() -> None:
    for _ in range(2):
        os.register_at_fork(before=nothing)


ENTRIES: dict[str, Entry] = {
    "type_has_end": native("type_has_end", Node),
    "memory_types": native("memory_types"),
    "register_memory_type": native("register_memory_type", Node),
    "immortalize": native("immortalize", can_repeat=False, ends_whole=False),
    "immortalize_bags": immortalize(make_bags),
    "immortalize_owners": immortalize(make_all),
    "immortalize_again": immortalize(seal_again),
    "immortalize_monitored": immortalize(monitor),
    "unfreeze_mortal": Entry(
        _native.unfreeze_mortal, make_shadow, seal_steps, can_repeat=False, ends_whole=False
    ),
    "gather_code": native("gather_code", can_repeat=False),
    "plug_malloc": native("plug_malloc", can_repeat=False),
    "plug_pymalloc": native("plug_pymalloc", can_repeat=False, kinds=("malloc", "calls")),
    "precompute_types": native("precompute_types"),
    "register_container": native("register_container", Node, fickle, ends_whole=False),
    "write_snapshot": Entry(run_snapshot, make_shadow),
    "snapshot_bags": Entry(run_snapshot, make_bags, ends_whole=False),
    "fix_counts": Entry(_native.fix_counts, sealed),
    "shown": Entry(show_all, sealed_with_a_file),
    "code_that_ran": native("code_that_ran"),
    "code_objects": native("code_objects", False),
    "collect": Entry(lambda: _native.collect(False), make_shadow, again=garbage),
    "collect_frozen": Entry(lambda: _native.collect(True), make_shadow, again=garbage),
    "watched_collect": Entry(watched_collect, make_shadow, again=garbage),
    "collect_held": Entry(lambda: _native.collect(False), hold_from_outside, again=garbage),
    "instances": native("instances", (Node, dict)),
    "trim": native("trim"),
    "use_huge_arenas": Entry(take_huge_arenas, make_shadow, changes_state=True),
    "adapt_thresholds": native("adapt_thresholds", changes_state=True),
    "files": Entry(_native.files, sealed_with_a_file),
    "note_frozen_files": Entry(_native.note_frozen_files, sealed_with_a_file),
    "note_files_first": native("note_frozen_files"),
    "left_out": Entry(_native.left_out, refute("gathered code")),
    "refused": Entry(ask_for_code, refute("gathered code")),
    "private_fields": native("private_fields"),
    "field_offsets": native("field_offsets"),
    "check_layout": Entry(_native.check_layout, make_shadow, again=forget_layout),
    "find_arguments": native("find_arguments"),
    "frozen_facts": native("frozen_facts"),
    "signal_action": native("signal_action", 2),
    "collection_history": native("collection_history"),
    "seal": seal_policy("seal"),
    "plain_child": ends_of_a_child(make_shadow),
    "sealed_child": ends_of_a_child(sealed),
    "pasture.collect": Entry(pasture.collect, make_shadow, again=garbage),
    "finalized_child": ends_of_a_child(sealed, finalizes),
    "finalized_again": ends_of_a_child(sealed, finalizes_again),
    # Py_RunMain of CPython says nothing where it cannot copy the command.
    "main_of_a_child": ends_of_a_child(make_shadow, runs_command, silent=(1,)),
    "module_of_a_child": ends_of_a_child(write_program, runs_module, silent=(1,)),
    "file_of_a_child": ends_of_a_child(write_program, runs_file, silent=(1,)),
    "freeze": Entry(freeze, wake_here),
    "load_again": Entry(load_again),
    "load_in_a_new_life": Entry(load_again, again=begin_life),
    "load_in_another": Entry(
        load_in_another, may_raise=(*ERRORS, RuntimeError), kinds=("places",), can_repeat=False
    ),
    "switches": Entry(turn_switches),
    "variables": Entry(look_at_variables, make_variables),
    "audit_hooks": Entry(add_and_drop_hooks, add_others),
    "arm_exit": native("arm_exit", lambda can_leave: (0, 0.0)),
    "run_by_hand": Entry(run_by_hand, arm_exit),
    "run_before_fork": Entry(lambda: _native.run_before_fork(nothing, 1), register_hooks),
    "report_unflushed": native("report_unflushed", None, OSError("full")),
    "finalize_before_modules": native("finalize_before_modules", False),
    "keep_spare_end": native("keep_spare_end"),
    "isolate_streams": Entry(
        lambda: _native.isolate_streams((inherited,), (watching.fileno(),)),
        again=connect_out,
        look=is_isolated,
    ),
    "learn_stream_owner": Entry(lambda: _native.learn_stream_owner(sys.stdout.buffer)),
    "choose_code": Entry(lambda: _native.choose_code(_native.code_that_ran())),
}
