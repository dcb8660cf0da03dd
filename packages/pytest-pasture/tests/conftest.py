"""Runs of pytest over small suites, each in a process of its own."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

MINE = ("-p", "no:hypothesispytest", "-p", "no:locust", "-p", "no:anyio")
"""Plug-ins of this environment that have no part in the tests, and cost their start."""


@dataclass(frozen=True)
class Run:
    """One run of pytest."""

    code: int
    output: str
    junit: Path

    @property
    def outcomes(self) -> dict[str, str]:
        """By test: passed, failure, error, or skipped."""
        cases = ElementTree.parse(self.junit).iter("testcase")
        return {
            f"{case.get('classname')}::{case.get('name')}": next(
                (child.tag for child in case if child.tag in ("failure", "error", "skipped")),
                "passed",
            )
            for case in cases
        }

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.outcomes.values())

    @property
    def why_plain(self) -> str:
        """The line that says why workers are xdist's own; "" where they are forked."""
        return self.line("pasture: plain xdist")

    def line(self, beginning: str) -> str:
        """The first one that begins so; "" if there is none."""
        lines = self.output.splitlines()
        return next((line for line in lines if line.startswith(beginning)), "")


class Suite:
    """A folder with tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("pytest.ini", "[pytest]\n")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def command(self, *options: str) -> list[str]:
        words = [sys.executable, "-m", "pytest", *MINE, "--junit-xml=junit.xml", *options]
        return words if "-n" in options or "--tx" in options else [*words, "-n", "2"]

    def start(self, *options: str) -> subprocess.Popen[str]:
        """In a session of its own, which a signal can reach as a terminal's does."""
        return subprocess.Popen(
            self.command(*options),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *options: str) -> Run:
        process = self.start(*options)
        output, _ = process.communicate(timeout=300)
        print(output)
        return Run(process.returncode, output, self.folder / "junit.xml")

    def forked(self, *options: str) -> Run:
        run = self.run("--pasture", *options)
        assert not run.why_plain
        assert " tests collected in " in run.output
        return run

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the worker that these tests run in."""
        own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return {**own, "XDG_RUNTIME_DIR": str(self.folder.parent / f"{self.folder.name}-run")}

    def kept(self, *options: str) -> Run:
        """A run that is served by what an earlier one left."""
        run = self.run("--keep", *options)
        assert " tests, kept for " in run.output
        return run

    def collected(self, *options: str) -> tuple[Run, str]:
        """A run that collects and is kept; why the one before it did not do."""
        run = self.run("--keep", *options)
        assert " tests collected in " in run.output
        assert "not kept" not in run.output
        return run, run.line("pasture: collected again: ")


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    suite = Suite(tmp_path)
    yield suite
    if (tmp_path.parent / f"{tmp_path.name}-run").exists():
        suite.run("--keep-stop", "-n", "0")
