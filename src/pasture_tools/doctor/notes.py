"""Notes that a command under `pasture doctor` wrote: the file of `watch/sitecustomize.py`.

Another program wrote the lines: malformed ones are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from pasture.trust.untrusted_text import printable


@dataclass(frozen=True, slots=True)
class Notes:
    gc_callers: tuple[str, ...] = ()  # who called gc.enable(), `module (file:line)` each
    # Name and module of each Python thread at a fork, by the kernel's number of the thread.
    threads: tuple[tuple[int, str, str], ...] = ()
    lazy: tuple[str, ...] = ()  # names of modules whose lazy import was pending at a fork
    # Modules that forked processes imported, by the pid of each.
    imports: tuple[tuple[int, str], ...] = ()

    def imported_by(self, pids: tuple[int, ...]) -> tuple[str, ...]:
        """Modules that each of some processes imported, in order."""
        each = [{name for pid, name in self.imports if pid == one} for one in pids]
        return tuple(sorted(set.intersection(*each))) if each else ()


def parse_notes(text: str) -> Notes:
    """Read the lines."""
    rows = [tuple(map(printable, line.split("\t"))) for line in text.splitlines()]
    return Notes(
        gc_callers=tuple(row[1] for row in rows if row[0] == "gc" and len(row) == 2),
        threads=tuple(
            (int(row[1]), row[2], row[3])
            for row in rows
            if row[0] == "thread" and len(row) == 4 and row[1].isdecimal()
        ),
        lazy=tuple(row[1] for row in rows if row[0] == "lazy" and len(row) == 2),
        imports=tuple(
            (int(row[1]), row[2])
            for row in rows
            if row[0] == "import" and len(row) == 3 and row[1].isdecimal()
        ),
    )
