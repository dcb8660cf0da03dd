"""`make bench-explain`: pages that a worker dirtied for a known cause, and what explain says.

Each cause has a parent and a worker of its own (tests/programs/dirty_pages.py), which counts
the pages by itself. Next to it runs the same program dirtying nothing: what is found there
is the program's own noise and is taken off. Ends with status 1 if a cause is off by more
than the tolerance.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pasture_tools.explain.explain import explain
from pasture_tools.explain.explanation import Explanation

PROGRAM = Path(__file__).parent.parent / "tests" / "programs" / "dirty_pages.py"
CAUSES = (
    "reference count",
    "GC header",
    "hole reused",
    "pool header",
    "code counter",
    "dict keys",
    "dict values",
    "list storage",
    "set storage",
    "object field",
    "weak-reference list",
    "string hash",
    "C allocation",
    "stack",
    "new memory",
    "written and restored",
)
CONTROL = "nothing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause: pages that were dirtied, and pages that were explained by it.

    Attributes:
        true_os_pages: counted by the worker itself.
        found_os_pages: explained by the cause, less the noise.
        noise_os_pages: explained by the cause in a worker that dirties nothing.
        unknown_os_pages: that could not be explained.
    """

    cause: str
    true_os_pages: int
    found_os_pages: int
    noise_os_pages: int
    unknown_os_pages: int

    @property
    def error(self) -> float:
        """How far off, as a fraction of the truth."""
        return abs(self.found_os_pages - self.true_os_pages) / max(1, self.true_os_pages)


@contextmanager
def dirtying(cause: str, count: int, snapshot: Path | None) -> Iterator[dict[str, int]]:
    """Run the program until its worker waits; what it said of itself."""
    environ = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "1"}
    if snapshot is not None:
        environ["PASTURE_SNAPSHOT"] = str(snapshot)
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), cause, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program for {cause!r} ended with status {process.wait()}")
        yield json.loads(line)
    finally:
        process.communicate()


def explained(cause: str, count: int, snapshot: Path | None) -> tuple[int, Explanation]:
    """Pages dirtied according to the worker, and the explanation of them."""
    with dirtying(cause, count, snapshot) as said:
        return said["os_pages"], explain(said["parent"], said["worker"], snapshot)


def pages_of(found: Explanation, cause: str) -> int:
    return sum(share.os_pages for name, share in found.causes if name.label == cause)


def measure(cause: str, count: int, control: Explanation, snapshot: Path | None) -> Finding:
    """Dirty pages for one cause and explain them."""
    true, found = explained(cause, count, snapshot)
    noise = pages_of(control, cause)
    return Finding(cause, true, pages_of(found, cause) - noise, noise, pages_of(found, "unknown"))


@click.command()
@click.option("--count", default=2000, show_default=True, help="Pages or objects of each cause.")
@click.option("--cause", "causes", multiple=True, type=click.Choice(CAUSES), help="Only these.")
@click.option("--snapshot/--no-snapshot", default=True, help="Let the parent write a snapshot.")
@click.option("--tolerance", default=0.02, show_default=True, help="Largest error allowed.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures.")
def main(
    count: int, causes: tuple[str, ...], snapshot: bool, tolerance: float, json_file: Path | None
) -> None:
    """Compare what `pasture explain` finds with what was dirtied, cause by cause."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot" if snapshot else None
        _, control = explained(CONTROL, 1, path)
        findings = [measure(cause, count, control, path) for cause in causes or CAUSES]
    show(findings, tolerance)
    if json_file is not None:
        rows = [
            {"cause": f.cause, "true": f.true_os_pages, "found": f.found_os_pages} for f in findings
        ]
        json_file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(finding.error > tolerance for finding in findings))


def show(findings: list[Finding], tolerance: float) -> None:
    table = Table(box=None, pad_edge=False)
    for i, title in enumerate(("cause", "true pages", "found", "off by", "noise", "unknown")):
        table.add_column(title, justify="left" if not i else "right")
    for f in findings:
        style = None if f.error <= tolerance else "red"
        figures = (f.true_os_pages, f.found_os_pages)
        table.add_row(
            f.cause,
            *(f"{n:,}" for n in figures),
            f"{f.error * 100:.2f} %",
            str(f.noise_os_pages),
            str(f.unknown_os_pages),
            style=style,
        )
    Console().print(table)


if __name__ == "__main__":
    main()
