"""docs/results/agents.md: its marked parts, out of agents.toml and of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean

from matrix.agents.catalog import Agent
from matrix.agents.runs import Delivery, Run
from matrix.environments import REPOSITORY
from matrix.page import table

PAGE = REPOSITORY / "docs" / "results" / "agents.md"
PROSE = ("<!-- agents -->\n", "<!-- end of the agents -->\n")
FIGURES = ("<!-- figures -->\n", "<!-- end of the figures -->\n")
MB = 1e6
SERVERS = ("gunicorn", "uvicorn")


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of an agent under one server on one CPython.

    Attributes:
        alone: the application without the agent, sealed.
        sealed: with the agent.
        stock: with the agent, not sealed; None where that was not tried.
        refork: with the agent, and a worker that became the parent of the others; None likewise.
    """

    agent: Agent
    server: str
    alone: Run
    sealed: Run
    stock: Run | None
    refork: Run | None = None

    @property
    def failure(self) -> str:
        return self.sealed.failure or self.alone.failure


def private(run: Run) -> float:
    """Bytes of a worker, the mean."""
    return mean(run.private_bytes) if run.private_bytes else float("nan")


def in_short(run: Run) -> str:
    """One line for the one who waits."""
    if run.failure:
        return f"FAILED: {run.failure.splitlines()[0]}"
    words = [
        seal_of(run),
        f"{private(run) / MB:.2f} MB private",
        f"threads {run.tasks_before - 1} before and {run.tasks_after - 1} after",
        f"arrived {arrived(run.steady)}",
        f"at the end {arrived(run.last)}",
    ]
    if run.parents_twice:
        words.append(f"the parent's {run.parents_twice} twice")
    return ", ".join(words)


def seal_of(run: Run) -> str:
    if run.reason is None:
        return "sealed"
    return f"not sealed ({run.reason})"


def arrived(found: Delivery) -> str:
    """How many of those that were due arrived, and what else is to say of it."""
    if not found.asked:
        return "/".join(map(str, found.by_worker)) or "-"
    words = [f"{found.once} of {found.asked}"]
    if found.twice:
        words.append(f"{found.twice} twice")
    return ", ".join(words) + (f" ({', '.join(found.wrong)})" if found.wrong else "")


def prose(agents: Iterable[Agent]) -> str:
    """A row an agent: what it starts, what becomes of it, what pasture does besides, what to do.

    What is started in each worker has no row: the row of the same agent before says that.
    """
    head = ("agent", "starts before the fork", "after the fork", "pasture", "you")
    started = [agent for agent in agents if agent.place != "worker"]
    rows = [(a.title, a.before, a.after, a.pasture, a.advice) for a in started]
    return table(head, rows) + "\n"


def figures(rows: Sequence[Row]) -> str:
    """A row an agent: a worker of each server, and what was lost."""
    head = ("agent", "threads", "gunicorn", "refork", "stock", "uvicorn", "did not arrive")
    groups = groupby(rows, key=lambda row: row.agent.title)
    return table(head, [_figures(list(same)) for _, same in groups]) + "\n"


def minor_of(run: Run) -> str:
    return ".".join(run.python.split(".")[:2])


def _figures(rows: Sequence[Row]) -> tuple[str, ...]:
    """Cells of one agent."""
    agent = rows[0].agent
    of = {server: [row for row in rows if row.server == server] for server in SERVERS}
    refork = next((row.refork for row in rows if row.refork), None)
    stock = next((row.stock for row in of["gunicorn"] if row.stock), None)
    threads = sorted({row.sealed.tasks_before - 1 for row in rows if not row.failure})
    return (
        agent.title,
        " or ".join(map(str, threads)),
        _private(of["gunicorn"]),
        _memory(refork),
        _memory(stock),
        _private(of["uvicorn"]),
        "; ".join(missing for server in SERVERS for missing in _missing(agent, of[server])),
    )


def _private(rows: Sequence[Row]) -> str:
    """Private memory of a worker on the newest interpreter (and on all, from least to most)."""
    if not rows or rows[0].agent.plain:
        return "plain" if rows else ""
    failures = [row.failure.splitlines()[0] for row in rows if row.failure]
    if failures:
        return _cell(failures[0])
    newest = max(rows, key=lambda row: int(minor_of(row.sealed).partition(".")[2]))
    each = sorted(rows, key=lambda row: private(row.sealed))
    unsealed = "" if all(row.sealed.reason is None for row in rows) else ", not sealed"
    low, high = _memory(each[0].sealed), _memory(each[-1].sealed)
    spread = f" ({low}-{high})" if len(rows) > 1 else ""
    return f"{_memory(newest.sealed)}{spread}{unsealed}"


def _missing(agent: Agent, rows: Sequence[Row]) -> Iterator[str]:
    """What requests to one server had reported, and did not arrive."""
    runs = [row.sealed for row in rows if not row.failure]
    if agent.plain or not (runs and agent.kinds):
        return
    server = rows[0].server
    if agent.by_clock:
        if not all(count for run in runs for count in run.steady.by_worker):
            yield f"{server}: workers report nothing"
        return
    steady, last = total([run.steady for run in runs]), total([run.last for run in runs])
    if steady.once < steady.asked:
        yield f"{server}: {steady.asked - steady.once} of {steady.asked}"
    elif not agent.scrape and last.once < last.asked:
        yield f"{server}, at the end: {last.asked - last.once} of {last.asked}"


def total(found: Sequence[Delivery]) -> Delivery:
    """What was due in several runs, as if it had been one."""
    return Delivery(
        asked=sum(one.asked for one in found),
        once=sum(one.once for one in found),
        lost=sum(one.lost for one in found),
        twice=sum(one.twice for one in found),
        by_worker=tuple(count for one in found for count in one.by_worker),
        wrong=tuple(sorted({kind for one in found for kind in one.wrong})),
    )


def _memory(run: Run | None) -> str:
    """In MB, the mean of the workers."""
    return f"{private(run) / MB:.1f}" if run is not None and run.private_bytes else ""


def complaints(rows: Sequence[Row]) -> Iterator[str]:
    """What is not as it should be, a line each: sealed or not without need, lost, twice, named."""
    for row in rows:
        where = f"{row.agent.name}, {row.server}, {row.sealed.python}"
        if row.agent.plain:  # what plain workers then do is theirs
            if row.sealed.reason is None and not row.failure:
                yield f"{where}: it is sealed"
        elif row.failure:
            yield f"{where}: {row.failure.splitlines()[0]}"
        elif row.sealed.reason is not None:
            yield f"{where}: {row.sealed.reason}"
        else:
            yield from (f"{where}: {what}" for what in _undelivered(row))
            # What copes with a fork must not keep `--strict` from starting.
            yield from (f"{where}: {what}" for what in row.sealed.hazards)


def _undelivered(row: Row) -> Iterator[str]:
    steady = row.sealed.steady
    if steady.lost or steady.twice or row.sealed.parents_twice:
        yield f"{steady.lost} lost, {steady.twice + row.sealed.parents_twice} twice"
    if row.agent.by_clock and 0 in steady.by_worker:
        yield "a worker reports nothing"
    # uvicorn's workers end by the signal: what they have not sent is lost without pasture, too.
    if row.server != "gunicorn" or row.agent.scrape or row.stock is None:
        return
    lost, lost_by_stock = row.sealed.last.lost, row.stock.last.lost
    if lost > lost_by_stock:
        yield f"{lost} lost at the end, {lost_by_stock} without pasture"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def page(text: str, agents: Mapping[str, Agent], rows: Sequence[Row]) -> str:
    """The page with both tables between its marks; the rest of it stays."""
    names = {row.agent.name for row in rows}
    words = prose(agent for agent in agents.values() if agent.name in names)
    untried = [agent.title for agent in agents.values() if agent.name not in names]
    if untried:
        words += f"\nNot tried yet: {'; '.join(untried)}.\n"
    for (begin, end), part in ((PROSE, words), (FIGURES, figures(rows))):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{part}\n{end}{after}"
    return text
