"""Memory that workers hold for themselves: an application loaded late, own data, imports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pasture.log_lines import some
from pasture.proc.packages import STANDARD_LIBRARY, package_of_module
from pasture.serving.settings import SETTINGS
from pasture_tools.display.units import count, megabytes
from pasture_tools.doctor.evidence import Evidence
from pasture_tools.doctor.findings import Finding
from pasture_tools.doctor.trouble import MIN_PRIVATE_BYTES, held, holds_little

_MIN_LIBRARIES_BYTES = 100_000
_MIN_LATE_BYTES = 1_000_000
"""Private memory of libraries in each worker that is an obstacle."""
_MAX_NAMES = 12
_MAX_PRELOADED = 5


def preloading(seen: Evidence) -> Iterator[Finding]:
    """Workers that each loaded the application share little with the master."""
    if seen.spawned:
        yield _spawned(seen)
        return
    if not seen.workers:
        yield Finding("preload", False, "no workers: nothing was forked yet")
        return
    private = sum(worker.memory.private_bytes for worker in seen.workers) / len(seen.workers)
    rss = sum(worker.memory.rss_bytes for worker in seen.workers) / len(seen.workers)
    if _loads_late(seen) and holds_little(seen.master, private, rss):
        fix = "`pasture run gunicorn ...`, or gunicorn's --preload"
        if seen.is_asgi:
            fix = "`pasture run` before the server's command"
        late = "the application is loaded after the fork"
        if seen.seal is not None:
            late = "the application, or much else, is loaded after the fork"
            fix = "import it in the program that forks, or name it: `--preload` of `pasture run`"
        fix = f"load it before: {fix}"
        yield Finding(
            "preload",
            True,
            f"{held(seen.master, private, rss)}: {late}",
            cost=f"up to {megabytes(private)} for each worker",
            fix=fix,
        )
    else:
        shared = 1 - private / rss if rss else 0
        what = f"workers share {shared * 100:.0f} % of their memory, and hold {megabytes(private)}"
        yield Finding("preload", False, f"{what} each for themselves")


def _is_loaded_late(seen: Evidence) -> bool:
    return _loads_late(seen) and next((f.is_obstacle for f in preloading(seen)), True)


def _spawned(seen: Evidence) -> Finding:
    server = "uvicorn" if seen.is_asgi else "..."
    started = f"{seen.spawned} workers were started as Python processes of their own"
    if seen.spawned == 1:
        started = "a worker was started as a Python process of its own"
    return Finding(
        "preload",
        True,
        f"{started} and not forked: nothing is shared with the master",
        cost="all that the application holds, for each worker",
        fix=f"`pasture run {server}` forks workers from a master that has loaded the application",
    )


def _loads_late(seen: Evidence) -> bool:
    """Whether workers may load the application: pasture's engines load it before the fork."""
    return seen.seal is None or (seen.seal.sealed and not seen.preloads)


def own_data(seen: Evidence) -> Iterator[Finding]:
    """Data that a worker has built for itself before its first request."""
    idle = [
        worker
        for worker in seen.workers
        if worker.at_start_bytes
        if worker.requests == 0 or (seen.notes is not None and not worker.requests)
    ]
    if seen.seal is None or not seen.seal.sealed or _is_loaded_late(seen):
        return  # most of it is the application itself
    if not idle:
        yield from _built_since(seen)
        return
    built = min(w.memory.private_bytes - w.at_start_bytes for w in idle)
    if built < MIN_PRIVATE_BYTES:
        yield Finding("own-data", False, "workers hold little before their first request")
        return
    where = "its lifespan" if seen.is_asgi else "a hook like post_fork, or a thread"
    fix = "load it while modules are imported"
    if seen.is_asgi:
        fix += ", and leave connections and tasks in the lifespan"
        once = "`--lifespan once` of `pasture run`"
        schedule, policy = (SETTINGS[name].variable for name in ("refork", "policy"))
        reforks = seen.environ.get(schedule) or seen.environ.get(policy) == "refork"
        fix = f"{fix} (no {once} where workers refork)" if reforks else f"{once}; or {fix}"
    yield Finding(
        "own-data",
        True,
        f"each worker built {megabytes(built)} for itself before its first request, in {where}",
        cost=f"{megabytes(built)} for each worker: a warm-up does not help, since it is built "
        "again after the fork",
        fix=fix,
    )


def _built_since(seen: Evidence) -> Iterator[Finding]:
    """Data of workers that have served, built by a lifespan or by requests."""
    known = [w.memory.private_bytes - w.at_start_bytes for w in seen.workers if w.at_start_bytes]
    built = min(known, default=0)
    if built < MIN_PRIVATE_BYTES:
        return
    where = "in its lifespan or for requests" if seen.is_asgi else "for requests, or in a hook"
    yield Finding(
        "own-data",
        False,
        f"each worker has built {megabytes(built)} since it was forked, {where}: "
        "`pasture explain` says what",
    )


def own_imports(modules: Mapping[str, int], largest: Sequence[str]) -> Iterator[Finding]:
    """Modules that a worker imported while serving, with their sizes, largest first.

    Args:
        largest: for each module, it or the one below it whose import brings the most.
    """
    total = sum(modules.values())
    if total < MIN_PRIVATE_BYTES:
        return
    names = [f"{name} ({megabytes(size)})" for name, size in modules.items()]
    yield Finding(
        "own-imports",
        True,
        f"a worker imported these modules while serving: {some(names, _MAX_NAMES)}",
        cost=f"about {megabytes(total)} and the time of the import in each worker, and once more "
        "in each that replaces it",
        fix=f"`pasture run --preload {','.join(largest[:_MAX_PRELOADED])}` imports most of it "
        "before the fork, `pasture run --auto` all of it from its second start on",
    )


def late_imports(seen: Evidence) -> Iterator[Finding]:
    """Packages that workers import, each for itself."""
    if not seen.workers:
        return
    if _is_loaded_late(seen):
        return  # the application is late, too: `preload` reports it
    first = seen.workers[0].packages
    late = set.intersection(*(set(worker.packages) for worker in seen.workers)) - seen.packages
    sizes = {n: first[n] for n in sorted(late, key=lambda n: (-first[n].private_bytes, n))}
    names = [f"{name} ({megabytes(size.private_bytes)})" for name, size in sizes.items()]
    mapped = {name.partition(" ")[0].lower() for name in sizes}
    imported = Counter(package_of_module(module) for module in seen.imported)
    names += sorted(
        f"{package} ({count(number, 'module')})"
        for package, number in imported.items()
        if package and package.lower() not in mapped
    )
    if not names:
        yield Finding("late-imports", False, _not_in_every(seen))
        return
    own = sum(size.private_bytes for size in sizes.values())
    large = own >= _MIN_LATE_BYTES or len(seen.imported) > 20
    cost = "what their modules hold, in each worker"
    if own >= _MIN_LIBRARIES_BYTES:
        cost = f"{megabytes(own)} for their libraries, and {cost}"
    yield Finding(
        "late-imports",
        large,
        f"every worker imports for itself: {some(names, _MAX_NAMES)}",
        cost=cost if large else "",
        fix="import them while the application is loaded, or in the warm-up" if large else "",
    )


def _not_in_every(seen: Evidence) -> str:
    """In words that no package is in all workers but not in the master."""
    count_of = Counter(name for worker in seen.workers for name in worker.packages)
    largest = {
        name: max(w.packages[name].private_bytes for w in seen.workers if name in w.packages)
        for name in count_of.keys() - seen.packages
    }
    if largest:
        names = sorted(largest, key=lambda name: (-largest[name], name))
        shown = [f"{n} ({megabytes(largest[n])}) in {count_of[n]}" for n in names]
        what = "no library is in all workers but not in the master"
        return f"{what}; in some of {len(seen.workers)}: {some(shown, _MAX_NAMES)}"
    if seen.notes is not None:
        return "every worker found its modules imported"
    return "no worker has mapped a library that the master has not"


def pending_imports(seen: Evidence) -> Iterator[Finding]:
    """Lazy imports that were pending at the fork: each worker makes them."""
    count = seen.seal.pending_imports if seen.seal is not None else None
    lazy = seen.notes.lazy if seen.notes is not None else ()
    names = [name for name in lazy if name.rpartition(".")[0] not in lazy]
    pending = len(names) if count is None else count
    if not pending:
        return
    shown = f": {some(sorted(names), _MAX_NAMES)}" if names else ""
    stdlib = [n for n in names if package_of_module(n) == STANDARD_LIBRARY]
    fix = (
        "`pasture run`, which makes those of the standard library before the fork"
        if seen.seal is None and stdlib
        else "`pasture run --preload MODULES` imports them before the fork"
    )
    yield Finding(
        "lazy-imports",
        True,
        f"{pending} lazy imports were pending at the fork{shown}",
        cost="each worker makes them at their first use, into memory of its own",
        fix=fix,
    )
