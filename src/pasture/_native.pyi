"""The C extension: everything that touches the interpreter's memory.

No formatting and no policy here: functions do one step and return counts.
`NotImplementedError` means "this interpreter or allocator has no such step", with the
reason as text; `RuntimeError` from `check_layout` means "refuse to go on".
"""

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, NoReturn, TypedDict

UNSUPPORTED: str | None
"""Why no step can run on the interpreter this was built for (None: supported)."""

HAS_IMMORTALITY: bool
"""Whether objects can be made immortal (CPython 3.12 and later)."""

BUILT_FOR: int
"""PY_VERSION_HEX of the headers this extension was compiled with."""

class Immortalized(TypedDict):
    objects: int
    """Objects made immortal by this call."""
    hashes: int
    """Hashes of strings and bytes computed ahead."""
    instructions: int
    """Bytecode instructions rewritten to the form they would take at their first run."""
    key_tables: int
    """Key tables shared by instances of a class, made immortal."""
    left_mortal: int
    """Frames, generators, coroutines and files, left as they are: their end has an effect."""
    owners_left_out: int
    """1 if these had too many owners, so that only the nearest were left; else 0."""
    containers: int
    """Containers of registered types met so far."""
    containers_failed: int
    """Of them, those whose function raised in this call."""
    mortal_types: list[tuple[type, int, int]]
    """Types of extensions that `memory_types` lacks; objects left as they are for it, and bytes."""

class Gathered(TypedDict):
    codes: int
    """Code objects that ran and were copied side by side."""
    bytes: int
    """Memory the copies take, for good."""

class Plugged(TypedDict):
    blocks: int
    bytes: int

class PluggedMalloc(Plugged):
    allocator: str
    """Which one serves malloc."""
    means: str
    """What was done about its holes."""

class CollectionHistory(TypedDict):
    """What `pasture.gc.History` has."""

    collections: int
    skipped: int
    declined: int
    from_roots: bool
    objects: int
    remainder: int
    garbage: int
    scratch_bytes: int
    nanoseconds: int

class FullCollectionRule(TypedDict):
    count: int
    """Collections of generation 1 since the last full one."""
    threshold: int
    """A full collection needs more than that many."""
    pending: int
    """Objects that have not met a full collection yet."""
    total: int
    """Objects that survived the last one. A full collection needs a quarter of that pending."""

def check_layout() -> None:
    """Find and verify the private fields of the running interpreter, once.

    A field that only some parts of pasture need leaves these out: `left_out` names them.

    Raises:
        RuntimeError: one that everything needs is somewhere else; nothing was changed.
    """

def left_out() -> list[tuple[str, str]]:
    """What `check_layout` found that cannot be used: the part, and a sentence that says why and
    what to do."""

def private_fields() -> list[tuple[str, str, str, tuple[str, ...], int]]:
    """The table of private fields: name, how it is found, how it is verified, parts that are left
    out without it, and the offset in bytes that is in use."""

def shift_field(row: int, offset: int, rows: int = 1, /) -> None:
    """Check build only: take fields to be this many bytes further on, and verify all again."""

def python_threads() -> int:
    """Number of Python thread states of this interpreter, the caller's included."""

def precompute_types() -> int:
    """Give every type that has none a version tag. Returns how many got one."""

def register_container(type: type, iterate: Callable[[object], Iterable[object]], /) -> None:
    """Have `immortalize` and `write_snapshot` ask a function what objects of a type hold."""

def register_owner(kind: type, sample: object, owned: object, /) -> bool:
    """Say that objects of a type refer to another where `sample` refers to `owned`.

    For one type without `tp_traverse`: `immortalize` leaves such objects mortal where what they
    refer to gives something back at its end. Returns whether the field was found in `sample`.
    """

def memory_types() -> tuple[tuple[str, str | None, str], ...]:
    """Types of extensions that are known to hold memory alone: a name, part of the path of the
    library or None, and what they hold. What follows a star is somewhere in the rest of a name."""

def register_memory_type(kind: type, /) -> None:
    """Say that objects of a type hold memory alone."""

def type_has_end(kind: type, /) -> bool:
    """Whether `immortalize` leaves all objects of a type mortal, for what the type itself shows."""

def dead_objects() -> list[tuple[type, int, int]]:
    """What earlier seals have made immortal, and the roots and all mortal objects do not lead to.

    Returns:
        Objects and bytes of each type; none where this process is not known to be sealed.
    """

def unfreeze_mortal() -> None:
    """Take out of what is frozen all that the last `immortalize` left mortal.

    From then on `gc.get_objects()` and `gc.get_referrers()` show what is frozen, too.
    """

def immortalize() -> Immortalized:
    """Make every object reachable from the GC lists immortal (the current process, GIL held).

    Raises:
        NotImplementedError: the interpreter knows no immortality (before 3.12).
        MemoryError: the work stack could not be had; objects made immortal so far stay so,
            which is safe, and the call can be repeated.
    """

class CountHistory(TypedDict):
    looks: int
    """How often counts were looked at, in this process and before the fork in its parent."""
    counts: int
    """Counts looked at, in all."""
    fixed: int
    """Of them, those that had drifted and were set again."""
    bytes: int
    """Memory for remembering which objects were made immortal."""

def fix_counts() -> CountHistory:
    """Look at the counts of objects that `immortalize` has made immortal, on pages that the
    process has to itself, and set again those that extensions for an old stable ABI moved.

    Runs by itself when a collection starts, if enough processor time has passed.
    """

def forget_code_runs() -> None:
    """Forget which code has run so far, so that `gather_code` finds what runs from now on."""

def keep_code_runs(keep: bool, /) -> None:
    """Whether `immortalize` leaves it visible which code has run and which has not, so that
    a child can gather in its turn what it ran. A child's first run of a piece of code then
    writes one instruction of it."""

def code_that_ran() -> bytes:
    """Addresses of the code that `gather_code` would copy, 8 bytes each in the machine's order,
    some more than once. They hold in this process and in those forked from it.

    Raises:
        MemoryError: for want of working memory.
    """

def code_objects(ran: bool, /) -> list[CodeType]:
    """The code of all functions, and what is nested in it, once each; with `ran` only what
    `gather_code` would copy.

    Raises:
        MemoryError: for want of working memory.
    """

def choose_code(addresses: bytes, /) -> None:
    """Have the next `gather_code` copy the code at these addresses (as `code_that_ran` gives them)
    and no other, whether it has run or not; b"" for what ran, as usual.

    Raises:
        ValueError: these are no addresses.
        MemoryError: nothing is chosen.
    """

def gather_code() -> Gathered:
    """Copy the code that ran onto pages of its own and bind the copies to its functions.

    Code that an earlier call has copied stays where it is. Before `immortalize`, which makes
    all code look as if it ran. A function's `__code__` is then another object, equal to the
    one before.

    Raises:
        NotImplementedError: the JIT or the second tier of the interpreter may hold code in traces.
        MemoryError: nothing was moved.
    """

def plug_malloc() -> PluggedMalloc:
    """Fill the free blocks of the allocator that serves malloc, as far as memory is in use.

    Of glibc the main heap below its top chunk alone.

    Raises:
        NotImplementedError: malloc is glibc's and does not serve this thread from its main heap,
            or it is not known which memory is in use.
    """

def plug_pymalloc() -> Plugged:
    """Fill the free blocks of pymalloc's pools that are in use.

    Raises:
        NotImplementedError: another allocator serves objects (PYTHONMALLOC, tracemalloc).
    """

def is_immortal(obj: object, /) -> bool:
    """Whether reference counting leaves `obj` alone."""

def write_snapshot(file: int, /) -> int:
    """Write a record of each object and its storage to a file descriptor (GIL held).

    Returns:
        The number of records, 32 bytes each: src/native/seal/snapshot.h has their layout.

    Raises:
        MemoryError, OSError: the file is not to be used.
    """

def field_offsets() -> list[tuple[str, str, int]]:
    """Holder, name and offset in bytes of the fields of builtin objects, for a reader of another
    process's memory. In holders in parentheses: sizes, numbers of bits, masks.

    What `check_layout` found in another place is left out.

    Raises:
        RuntimeError: as `check_layout`.
    """

def arm_exit(work: Callable[[bool], tuple[int, float]], /) -> None:
    """Register the last function of atexit. It ends a process without finalization, with the
    status that the interpreter alone knows.

    Nothing is registered if it is registered already, or while functions of atexit run.

    Args:
        work: called at the end, with whether the process can be left. It returns what is to be
            done (`pasture.sealing.exit.Ending`), and for how many seconds locked streams of C may
            still be waited for.

    Raises:
        NotImplementedError: atexit keeps its functions in a way that is not known.
    """

def files(frozen: bool | None = None, /) -> list[object]:
    """The files that the collector knows. Looking for them writes to no other object.

    A file is whatever derives from `io.IOBase`, or an object that its `__del__` closes and that
    something can be written to, as a `ZipFile`.

    Args:
        frozen: those that were there at the last seal, or those that are not frozen; None for
            both, where one may be there twice.
    """

def before_forks(known: object, /) -> int:
    """How many functions `os.register_at_fork(before=...)` has been given.

    Args:
        known: one of them; without it among them they are not where the headers say, and 0.
    """

def run_before_fork(known: object, begin: int, /) -> None:
    """Call those from an index on, the last one first, as a fork does, which reports what they
    raise. Nothing where `begin` is 0."""

def finalize(op: object, /) -> None:
    """Run the finalizer of an object now; then it does not run again. What it raises is reported
    as for any finalizer."""

def finalize_before_modules(now: bool, /) -> None:
    """Have finalizers of objects that modules hold run before the interpreter empties these, as in
    a process that is not sealed; or now. Call it in the last function of atexit.

    Raises:
        NotImplementedError: the collector's fields are not known in this build.
    """

def report_unflushed(stdout: object, error: BaseException, /) -> None:
    """Report that what `sys.stdout` held was not written, as finalization does."""

def learn_stream_owner(locked: object, /) -> None:
    """Learn where buffered streams keep who holds their lock, from a `BufferedWriter` whose lock
    this thread holds: in the `write` of the stream below."""

def stream_lock(stream: object, /) -> int:
    """Who holds the lock of a `BufferedWriter` or `BufferedRandom`.

    Returns:
        0: no other thread; 1: another thread; 2: a thread that is not in this process, for ever.
    """

def note_frozen_files() -> None:
    """Remember which files are frozen, so that `files()` need not walk through what is frozen
    now. They get a weak reference each. Call it after `gc.freeze()`.

    Raises:
        MemoryError, TypeError: `files()` walks as usual; the latter for a file of a type that
            knows no weak references.
    """

def exit_process(status: int, lock_limit_s: float, /) -> NoReturn:
    """Flush C's streams and end the process with the low 8 bits of `status`: no atexit
    function, no finalization. Streams that other threads keep locked in the middle of writing are
    waited for as long as `lock_limit_s`, all together; one that is left out is named on stderr, and
    makes a status of 0 one of 120."""

def collect(include_frozen: bool, /) -> int:
    """Run a full collection out of line; return what `gc.collect()` would.

    Args:
        include_frozen: also find garbage among frozen objects.

    Raises:
        MemoryError: working memory could not be had; nothing was collected.
        RuntimeError: other interpreters exist in this process.
    """

def watch_collections(on: bool, /) -> None:
    """Run every full collection out of line from now on, or no longer. Idempotent."""

def is_watching_collections() -> bool: ...
def is_collecting() -> bool:
    """Whether a garbage collection runs: the caller is a finalizer or callback, or next to one."""

def collection_history() -> CollectionHistory: ...
def instances(types: tuple[type, ...], /) -> list[Any]:
    """The objects of exactly these types that are in the collector's lists, but frozen ones.

    Raises NotImplementedError where the extension does not know the collector.
    """

def unfrozen_objects() -> int:
    """Number of objects in the collector's lists, but frozen ones. Writes to none of them.

    Raises NotImplementedError where the extension does not know the collector.
    """

def full_collection_pays() -> bool:
    """Whether a full collection is worth its cost now, between two requests."""

def full_collection_rule() -> FullCollectionRule:
    """What CPython decides by whether an automatic collection is a full one."""

def forget_frozen() -> bool:
    """Have that rule count no frozen objects, if most of the heap is frozen.

    CPython counts what it froze as survivors of the last full collection for as long as no
    other one runs. Returns whether most of the heap is frozen.
    """

def trim() -> int:
    """Give free memory that this process has to itself back to the system.

    Of pymalloc's free pools all but the first OS page each, and whole free pages of malloc's
    heaps. Costs a system call for each pool and chunk that is given back.

    Returns:
        Bytes of pools; 0 where pymalloc does not serve objects, and before CPython 3.13.
    """

def use_huge_arenas() -> None:
    """Take pymalloc's arenas from huge pages (madvise(2)) once this process has taken 64 MiB more.

    Its children take small ones, unless they call it, too. Without effect where the system's
    settings or the kernel allow no huge pages, or objects come from another allocator.
    """

def adapt_thresholds() -> bool:
    """Have automatic full collections come as soon as their cost allows, from now on.

    For processes whose heap is frozen but for a little. Sets the thresholds of generations 1
    and 2 and goes on to do so, by what the last full collection took of the processor time; ends
    for good once other code has set others.

    Returns:
        False, with nothing changed, where those thresholds are not CPython's own.
    """

def end_adapting_thresholds() -> None:
    """End what `adapt_thresholds` began; CPython's own thresholds are back."""

def trim_after_collections(on: bool, /) -> None:
    """Have that done after every full collection that is watched, or no longer."""

def describe_stream(number: int, /) -> tuple[int, int, bool, bool, bool, bool, int, int, str, str]:
    """A socket, as `pasture.fork_safety.open_files.Stream` has it behind number and inode.

    Changes nothing of the open file, which other processes may have.

    Raises:
        OSError: it is another file, or none.
    """

def keep_spare_end() -> None:
    """Make the end that `isolate_streams` uses in a child that may open no more files.

    Raises:
        OSError: this process may open none.
    """

def isolate_streams(streams: tuple[tuple[int, int], ...], epolls: tuple[int, ...], /) -> None:
    """Put a dead end over each stream, and an epoll of its own over each epoll. In a child.

    Args:
        streams: the number and the inode of each; a number that has another inode is left alone.
        epolls: numbers.

    Raises:
        OSError: one stream had to be closed, or one epoll left as it is; the others are done.
    """

def write_mapping(start: int, length: int, file: int, at: int, /) -> None:
    """Write whole OS pages of this process that can be read, to a file from `at` on.

    Args:
        length: bytes. Pages of zeros are passed over.

    Raises:
        OSError: there is no room for them.
    """

def replace_mapping(start: int, length: int, file: int, at: int, is_writable: bool, /) -> None:
    """Map a file from `at` on in the place of what is mapped there, shared with later children.

    Raises:
        OSError: nothing has changed.
    """

def adopt_orphans(on: bool = True, /) -> bool:
    """Have orphaned descendants become children of this process (a "subreaper"), or no longer.

    Returns whether they did before.

    Raises:
        OSError: the kernel refuses.
    """

def frozen_facts() -> tuple[int, int]:
    """Where what `freeze` finds out lies in memory, and its size in bytes."""

def freeze() -> tuple[list[bytes], list[bytes], int, str, bytes, int, int]:
    """Stop this process so that its memory can be copied. Returns where the copy comes to life.

    Returns:
        Arguments and environment of that process; a bit for each signal that it ignores; what is
        to be run: `c`, `m`, `f` or `s`, its text, and the index of its first own argument.

    Raises:
        OSError: the kernel does not say what a copy needs.
    """

def set_utf8_mode(flags: object, index: int, is_utf8: bool, errors: str, /) -> None:
    """Set the UTF-8 mode of this interpreter, as its start does by the locale.

    Args:
        flags: `sys.flags`, which is changed.
        index: of the mode in it.
        errors: of the standard streams, for interpreters that are made later; "" for no change.
    """

def find_arguments() -> bool:
    """Find where Py_GetArgcArgv() has its arguments from, for `run_main`; whether that is known."""

def run_main(
    argv: list[str],
    all_argv: list[str],
    needs_folder: bool,
    command: str | None,
    name: str | None,
    file: str | None,
    /,
) -> NoReturn:
    """Run a program as the interpreter's own command line does, and end the process.

    Args:
        argv: as `sys.argv` is.
        all_argv: the command line, as Py_GetArgcArgv() shall give it.
        needs_folder: whether the program's folder is put first on the search path, as by default.
        command: code to run, or None.
        name: of a module to run, or None.
        file: path of a program, or None. Without any of the three: standard input.
    """

def begin_finalizing() -> None:
    """Have the interpreter say that it is finalizing. With one thread alone."""

def open_variables(file: int, /) -> bool:
    """Have code in C find variables in a file of `NAME=VALUE`, each ended by a zero byte.

    From now on `getenv` looks into the environment, and then into the file. The file is mapped:
    a value that is not asked for is nowhere else.

    Returns:
        False if the system refuses to have `getenv` watched.

    Raises:
        OSError: the file cannot be mapped, or another one is open.
    """

def find_variable(name: bytes, /) -> bytes | None:
    """The value of a variable in the open file."""

def hide_variable(name: bytes, /) -> None:
    """Take a variable out of the open file; the file itself stays as it is."""

def variable_names() -> list[bytes]:
    """Names of what is left in the open file."""

def close_variables() -> tuple[list[bytes], bool]:
    """Forget the file, and let `getenv` be. Returns names that it was asked for, and whether these
    are all.

    Raises:
        OSError: `getenv` cannot be put back. It answers from the environment alone.
    """

def add_audit_hook(hook: Callable[[str, tuple[Any, ...]], None], /) -> bool:
    """As `sys.addaudithook`. Returns whether the hook is there and can be dropped: False if another
    hook has refused it."""

def drop_audit_hook(hook: Callable[[str, tuple[Any, ...]], None], /) -> None:
    """Take back a hook that `add_audit_hook` has added and returned True for."""

def die_with_parent(signal: int, /) -> None:
    """Have this process sent `signal` when its parent ends. Look at `os.getppid()` afterwards:
    a parent that has already ended sends nothing. Not inherited by a fork.

    Raises:
        OSError: no such signal.
    """

def dumpable() -> int:
    """Whether others of this process's user may read its memory: PR_GET_DUMPABLE(2const)."""

def signal_action(number: int, /) -> bytes:
    """The action of a signal as the kernel has it: `struct sigaction`."""

def set_signal_action(number: int, action: bytes, /) -> None:
    """Set an action again. Python's own table of handlers stays as it is."""

def reset_signal_after_first(number: int, /) -> None:
    """Have the action of a signal run once; then the signal has its default effect."""
