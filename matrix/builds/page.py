"""The matrix: a row a build of CPython, in docs/results/interpreters.md between two marks."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trials import REPOSITORY, Installation, Outcome

from matrix.page import table

PAGE = REPOSITORY / "docs" / "results" / "interpreters.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of the matrix -->\n"
HEAD = (
    "CPython", "build", "compiler", "from source", "by wheel",
    "native tests", "stock child", "sealed child",
)  # fmt: skip


@dataclass(frozen=True)
class Build:
    """A row of `tools/builds list --json`."""

    name: str
    minor: str
    source: str
    about: str
    words: list[str]
    ways: list[str]
    refused: list[str]
    asked_for: bool


@dataclass(frozen=True)
class Row:
    build: Build
    outcome: Outcome

    def in_short(self) -> str:
        if self.outcome.absent is not None:
            return f"not here: {self.outcome.absent}"
        return ", ".join(filter(None, (*self.ways(), native(self.outcome))))

    def ways(self) -> list[str]:
        """The outcome of each way of installing that is tried, as "seals from source"."""
        found = {"source": self.outcome.source, "wheel": self.outcome.wheel}
        return [f"{word(found[how])} from {how}" for how in self.build.ways]

    def cells(self) -> tuple[str, ...]:
        outcome = self.outcome
        facts = outcome.facts
        return (
            facts["version"],
            self.build.about,
            compiler(facts["compiler"]),
            word(outcome.source) if "source" in self.build.ways else "",
            word(outcome.wheel) if "wheel" in self.build.ways else "",
            native(outcome),
            *memory(outcome),
        )


def word(installation: Installation | None) -> str:
    return "no wheel" if installation is None else installation.word


def compiler(banner: str) -> str:
    """The name and version at the head of what the interpreter says; "GCC 12.2.0"."""
    return " ".join(banner.split()[: 3 if banner.startswith("Clang") else 2])


def native(outcome: Outcome) -> str:
    if outcome.native is None:
        return ""
    passed, failed, skipped = outcome.native
    return f"{passed} passed" + f", {failed} failed" * bool(failed) + f", {skipped} skipped"


def memory(outcome: Outcome) -> tuple[str, str]:
    """MB that a child has for itself, in a stock process and in a sealed one."""
    found = [each.memory for each in (outcome.source, outcome.wheel) if each and each.memory]
    if not found:
        return "", ""
    sealed = "" if found[0].reason else f"{found[0].sealed_mib:.1f} MB"
    return f"{found[0].stock_mib:.1f} MB", sealed


def complaints(rows: Sequence[Row]) -> list[str]:
    """What is not as it should be: a line each."""
    return [
        f"{row.build.name}: {problem}"
        for row in rows
        if row.outcome.absent is None
        for problem in problems(row)
    ]


def problems(row: Row) -> Iterator[str]:
    for how, way in (("source", row.outcome.source), ("wheel", row.outcome.wheel)):
        expected = "refused" if how in row.build.refused else "seals"
        if way is not None and way.word != expected:
            reason = way.failure or (way.memory and way.memory.reason)
            yield f"{way.word} (from {how}): {reason}"
    if row.outcome.native and row.outcome.native[1]:
        yield f"{row.outcome.native[1]} native tests failed (its native.log says which)"


def refusals(rows: Sequence[Row]) -> Iterator[str]:
    """Why builds were not sealed, in the words that a user sees; a line for each reason."""
    builds: dict[str, list[str]] = {}
    for row in rows:
        for how, way in (("source", row.outcome.source), ("wheel", row.outcome.wheel)):
            reason = way and (way.failure or (way.memory and way.memory.reason))
            if reason:
                about = f"{row.outcome.facts['version']}, {row.build.about}, from {how}"
                words = reason.replace("|", " ").replace(f"{REPOSITORY}/", "")
                builds.setdefault(words, []).append(about)
    for reason, those in builds.items():
        yield f"- {'; '.join(those)}: {reason}"


def absences(rows: Sequence[Row]) -> Iterator[str]:
    """Builds that could not be had; those of one reason in one line."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.outcome.absent is not None:
            names.setdefault(row.outcome.absent, []).append(row.build.name)
    for reason, those in names.items():
        yield f"- {', '.join(those)}: {' '.join(reason.split())}"


def write_page(rows: Sequence[Row], untried: Sequence[str] = ()) -> None:
    """Puts the matrix between the marks of the page; the rest of it stays.

    Args:
        rows: the outcomes of the builds that were tried.
        untried: names of the others.
    """
    there = [row for row in rows if row.outcome.absent is None]
    parts = [f"On {platform.machine()}:\n", table(HEAD, (row.cells() for row in there)) + "\n"]
    for title, lines in (
        ("Not sealed:", list(refusals(there))),
        ("Not to be had when this was written:", list(absences(rows))),
        ("Not tried yet:", [f"- {', '.join(untried)}"] if untried else []),
    ):
        if lines:
            parts += [f"{title}\n", "\n".join(lines) + "\n"]
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + after)
