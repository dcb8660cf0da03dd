"""Branches and MC/DC of the extension and of pasture-python: builds, runs tests, writes the page.

    make coverage                        # 3.14 and 3.12; goes on where it stopped
    make coverage ARGS="--open leave.c"  # what is not reached in a file, from what was counted

A piece is a test file, or an entry point of the failures; build/coverage has which are done, and
one that changes runs again. So do all where a change of the C changes the branches of a function,
by clang's hash of them: what was counted stays for all other functions. Without build/coverage all
begins from zero. `--only` runs the pieces alone that have one of some texts in their names.

Built by clang, with counters that all processes map, so no end of one loses them: counters.c. A
branch is a condition and one of its two outcomes. It counts as reached where it was on any of the
interpreters. A reason is a comment, behind the branch, on the line above its statement, or, for
all of a file that is not reached, at its end:

    /* not reached: REASON */
    /* not reached in this file: REASON */
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
sys.path.append(str(REPOSITORY))

from matrix.page import table  # noqa: E402

BUILD = REPOSITORY / "build" / "coverage"
PAGE = REPOSITORY / "docs" / "results" / "coverage.md"
SOURCES = ("src/native/", "packages/image/src/stub/")
LISTED = 25
"""Files with most open branches that the page has; `--open` shows all."""
REASON_MIN_BRANCHES = 3
"""Reasons of fewer branches are counted together: they are in the source."""
UNCOUNTED = ("restorer.c", "counters.c")
"""The restorer runs while nothing else of its program is mapped, so it has no counters."""
STUB = REPOSITORY / "packages/image/src/stub"
CHANNELS, ENTRIES = "tests/fuzz/channels", "tests/failures"
LLVM = os.environ.get("PASTURE_LLVM", "19")
UNCOUNTED_FOLDER = "src/native/check/"
"""The verifier: what it asks is an assertion."""
CLANG = f"clang-{LLVM}"
COUNTING = "-fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc -fprofile-update=atomic"
MAIN = "3.14"
CHECKED = ("tests/native", "tests/hostile", "tests/model", "tests/fuzz")
SERVED = ("tests/image", "tests/integration", "packages/pytest-pasture/tests/integration")
"""What runs on the check build, which injects faults, and what on the extension as users get it."""
MUTATED = ("--target", "image_manifest", "--messages", "100000")
LINKED = ("counters.c", "counters.ld")
TESTS, FAILURES = "tests", "failures"
"""What counts, each with counters of its own."""
FAILED = {
    "failing.c": ("--kind", "places", "--once"),
    "calls.c": ("--kind", "calls", "--once", "--minutes", "1.5"),
    "entries.py": ("--kind", "memory", "--mode", "0", "--once", "--minutes", "0.2"),
}
"""Pieces of the failures by a file of theirs, one for each entry point: those of the extension by
place, to their end, and others, for some minutes a mode."""
STARTED = {"__main__.py": "STARTS", "placed.py": "PLACED"}
"""Dictionaries of entry points of which calls fail alone."""
AT_ONCE = 2
PIECE_LIMIT_S = 1800
Position = tuple[int, int, int, int]


@dataclass
class File:
    """What was counted in one source file, over all builds of it."""

    lines: Counter[int] = field(default_factory=Counter)
    branches: dict[Position, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    conditions: dict[tuple[int, ...], list[bool]] = field(default_factory=dict)

    def unreached(self) -> Iterator[tuple[Position, bool]]:
        """Conditions and outcomes."""
        for place, counts in sorted(self.branches.items()):
            for outcome, count in zip((True, False), counts, strict=True):
                if not count:
                    yield place, outcome


Counted = dict[str, File]

HASHED = re.compile(rb"^  \S.*:\n    Hash: \w+", re.M)
"""A function, as llvm-profdata shows it."""

OF_A_FAILURE = {
    True: re.compile(r"err|result|PyErr_Occurred\(\)|.*(==|<=?|!=) *(NULL|0|-1|MAP_FAILED)", re.S),
    False: re.compile(r"!(err|result)|.*(!=|>=?|==) *(NULL|0|-1|MAP_FAILED)", re.S),
}
"""The form of a condition by which a program finds, at that outcome, that a call has failed."""

RETURNS_TWICE = re.compile(r"(child|fork\(\)|_setjmp\(here\)) == 0")
"""What is called counts once, and what follows in each process or life: clang takes the one outcome
from that, and finds that the other one never was. Where the first one was, both were."""


# --- Building and running ------------------------------------------------------------------


@dataclass(frozen=True)
class Build:
    """The extension and the stub for one interpreter, with counters."""

    minor: str
    is_check: bool

    @property
    def name(self) -> str:
        return self.minor + "-check" * self.is_check

    @property
    def folder(self) -> Path:
        return BUILD / self.name

    @property
    def python(self) -> Path:
        return REPOSITORY / ".venvs" / f"{self.name}-coverage" / "bin" / "python"

    @property
    def objects(self) -> dict[str, Path]:
        modules = self.python.parent.parent.glob("lib/*/site-packages/pasture/_native*.so")
        found = {"pasture": next(modules), "pasture-image": self.python.parent / "pasture-python"}
        return found | ({"reader": self.folder / "reader"} if self.has_reader else {})

    @property
    def has_reader(self) -> bool:
        """Of manifests, which `make fuzz-channels` throws mutated ones at."""
        return self.minor == MAIN and self.is_check

    def counters(self, name: str) -> list[str]:
        """For the linker. uv builds again where their name is another one."""
        digests = (digest_of(str((HERE / each).relative_to(REPOSITORY))) for each in LINKED)
        compiled = self.folder / f"{name}-{'-'.join(one[:8] for one in digests)}.o"
        named = f'-DCOVERAGE_COUNTERS="{self.folder}/{name}"'
        command = [CLANG, "-c", "-O1", "-fPIC", named, "-o", compiled, HERE / "counters.c"]
        subprocess.check_call(command)
        return [str(compiled), f"-Wl,-T,{HERE}/counters.ld"]

    def compile_reader(self) -> None:
        reader = REPOSITORY / CHANNELS / "manifest_reader.c"
        sources = [STUB / "manifest.c", STUB / "rules.c", reader]
        command = [CLANG, "-std=c11", "-O1", "-w", *COUNTING.split(), f"-I{STUB}", *sources]
        subprocess.check_call([*command, *self.counters("reader"), "-o", self.folder / "reader"])

    def settings(self) -> Iterator[str]:
        """For uv, once what they name has been compiled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = BUILD / "uncounted.txt"
        rows = (f"source:*/{name}=skip\n" for name in UNCOUNTED)
        listed.write_text("[clang]\n" + "".join(rows) + "default:allow\n")
        for package, kind in (("pasture", "MODULE"), ("pasture-image", "EXE")):
            defined = {
                "CMAKE_C_COMPILER": CLANG,
                "CMAKE_C_FLAGS": f"{COUNTING} -fprofile-list={listed}",
                f"CMAKE_{kind}_LINKER_FLAGS": " ".join(self.counters(package)),
            }
            if kind == "MODULE":
                defined[f"CMAKE_{kind}_LINKER_FLAGS"] += " -Wl,--wrap=freeze_here"
                defined["PASTURE_CHECK"] = "ON" if self.is_check else "OFF"
            for name, value in defined.items():
                yield f"{package}:cmake.define.{name}={value}"
            yield f"{package}:install.strip=false"

    def make(self) -> None:
        """The environment; counters of another build are removed."""
        find = [REPOSITORY / "tools/interpreters", "path", self.minor]
        python = subprocess.check_output(find, text=True).strip()
        words = [word for one in self.settings() for word in ("--config-settings-package", one)]
        folder = self.python.parent.parent
        make = [REPOSITORY / "tools/environment", folder, python, "test extras demo"]
        subprocess.check_call([*make, *words])
        if self.has_reader:
            self.compile_reader()
        self.compiled.write_text(json.dumps({path: digest_of_code(path) for path in sources()}))
        if self.digest.exists() and self.digest.read_text() == self.built():
            return
        for path in self.folder.glob("*.counters"):
            path.unlink()
        for path in self.folder.glob("*.profdata"):
            path.rename(path.with_suffix(".before"))
        self.functions.write_text(self.hashes())
        self.digest.write_text(self.built())

    @property
    def digest(self) -> Path:
        return self.folder / "digest"

    @property
    def done(self) -> Path:
        """Pieces, by name, with the digests of what ran and of the functions that it ran on."""
        return self.folder / "done.json"

    @property
    def functions(self) -> Path:
        return self.folder / "functions"

    @property
    def compiled(self) -> Path:
        """The sources that positions are of, with their digests."""
        return self.folder / "sources.json"

    def built(self) -> str:
        return hashlib.sha256(
            b"".join(path.read_bytes() for path in self.objects.values())
        ).hexdigest()

    def write(self, package: str, what: str, raw: Path) -> None:
        """What has been counted, by the program that counts."""
        start: list[str | Path] = [self.objects[package], "-V"]
        if package == "pasture":
            start = [self.python, "-c", "import pasture._native"]
        named = {"COVERAGE_OF": what, "COVERAGE_WRITE": str(raw)}
        subprocess.check_call(start, env=os.environ | named)

    def hashes(self) -> str:
        """Of the branches of all functions."""
        raw, shown = self.folder / "functions.profraw", b""
        for package in self.objects:
            self.write(package, TESTS, raw)
            show = [f"llvm-profdata-{LLVM}", "show", "--all-functions", raw]
            shown += b"\n".join(sorted(HASHED.findall(subprocess.check_output(show))))
        return hashlib.sha256(shown).hexdigest()

    def keep(self) -> None:
        """What has been counted up to now, as JSON of llvm-cov."""
        if not self.digest.exists() or self.digest.read_text() != self.built():
            return  # of another build
        for what in (FAILURES, TESTS):
            for package, path in self.objects.items():
                before, merged, raw = (
                    self.folder / f"{package}.{what}.{end}"
                    for end in ("before", "profdata", "profraw")
                )
                self.write(package, what, raw)
                profiles = [raw, *([before] if before.exists() else [])]
                merge = [f"llvm-profdata-{LLVM}", "merge", "-o", merged, *profiles]
                subprocess.check_call(merge, stderr=subprocess.DEVNULL)
                export = [f"llvm-cov-{LLVM}", "export", path, "-instr-profile", merged]
                text = subprocess.check_output(export, stderr=subprocess.DEVNULL)
                raw.write_bytes(text)  # whole, or not there, for another run that reads it
                raw.rename(merged.with_suffix(".json"))

    def pieces(self) -> dict[str, list[str | Path]]:
        """Commands, by name: a test file each, the messages that are mutated, and the failures."""
        chosen = [] if self.minor == MAIN else ["-m", "interpreter"]
        pytest = [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
        found: dict[str, list[str | Path]] = {}
        for folder in CHECKED if self.is_check else SERVED:
            for path in sorted((REPOSITORY / folder).rglob("test_*.py")):
                name = str(path.relative_to(REPOSITORY))
                found[name] = [*pytest, name]
        if self.has_reader:
            reader = f"MANIFEST_READER={self.folder / 'reader'}"
            found[f"{CHANNELS}/__main__.py"] = ["env", reader, self.python, CHANNELS, *MUTATED]
        for name, words in FAILED.items() if self.is_check else ():
            for entry in entries(name == "calls.c"):
                piece = f"{name}-{entry}"  # with a folder of its own, as workers of the tests have
                env = ["env", f"COVERAGE_OF={FAILURES}", f"PYTEST_XDIST_WORKER={piece}"]
                found[f"{ENTRIES}/{name} {entry}"] = [*env, self.python, ENTRIES, entry, *words]
        return found

    def already(self) -> dict[str, str]:
        return json.loads(self.done.read_text()) if self.done.exists() else {}

    def progress(self) -> str:
        done = self.already()
        current = sum(done.get(name) == self.digest_of_piece(name) for name in self.pieces())
        before = sum(name in done for name in self.pieces()) - current
        return f"{current} of {len(self.pieces())} of {self.name}" + (
            f" (and {before} before a function or their test changed)" if before else ""
        )

    def digest_of_piece(self, name: str) -> str:
        return f"{digest_of(name.split()[0])} {self.functions.read_text()}"

    def run(self, only: list[str]) -> None:
        """None has to pass here: `make test` sees to that. New ones run first."""
        self.keep()
        self.make()
        done, pieces = self.already(), self.pieces()
        left = [name for name in pieces if done.get(name) != self.digest_of_piece(name)]
        left = [name for name in left if not only or any(text in name for text in only)]
        left.sort(key=lambda name: done.get(name, "").startswith(digest_of(name.split()[0])))

        def piece(name: str) -> tuple[str, str]:
            digest = self.digest_of_piece(name)  # a change while it runs runs again
            with (self.folder / "log").open("a") as log:
                ended = subprocess.run(
                    ["timeout", "-k", "10", str(PIECE_LIMIT_S), *map(str, pieces[name])],
                    cwd=REPOSITORY,
                    stdout=log,
                    stderr=log,
                    check=False,
                )
            print(f"{self.name}: {name}: status {ended.returncode}", flush=True)
            return name, digest

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for each in as_completed([pool.submit(piece, name) for name in left]):
                name, digest = each.result()
                done[name] = digest
                self.done.write_text(json.dumps(done, indent=1))
        self.keep()


def builds() -> list[Build]:
    names = sorted(path.parent.name for path in BUILD.glob("*/digest"))
    return [Build(name.removesuffix("-check"), name.endswith("-check")) for name in names]


def keys(path: str, name: str) -> Iterator[str]:
    """Of a dictionary that a module of the failures writes out."""
    for node in ast.parse((REPOSITORY / ENTRIES / path).read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == name:
                yield from (ast.literal_eval(key) for key in node.value.keys if key is not None)


def entries(with_started: bool) -> Iterator[str]:
    """Entry points of the failures."""
    yield from keys("entries.py", "ENTRIES")
    for path, name in STARTED.items() if with_started else ():
        yield from keys(path, name)


def digest_of(path: str) -> str:
    return hashlib.sha256((REPOSITORY / path).read_bytes()).hexdigest()


def digest_of_code(path: str) -> str:
    """Of a source without the reason at its end, which moves no line."""
    text = OF_FILE.sub("", (REPOSITORY / path).read_text()).rstrip()
    return hashlib.sha256(text.encode()).hexdigest()


def sources() -> Iterator[str]:
    for folder in SOURCES:
        for path in sorted((REPOSITORY / folder).rglob("*.[ch]")):
            yield str(path.relative_to(REPOSITORY))


# --- Reading what was counted --------------------------------------------------------------


def count_at(segments: list[list[Any]], line: int, column: int) -> int:
    """How often the region ran that a place is in."""
    at = bisect_right(segments, [line, column, float("inf")]) - 1
    return int(segments[at][2]) if at >= 0 and segments[at][3] else 0


def lines_in(segments: list[list[Any]]) -> Iterator[tuple[int, int]]:
    """Lines with code, and how often they ran."""
    before: list[Any] = [0, 0, 0, False, False, False]
    by_line: dict[int, list[list[Any]]] = defaultdict(list)
    for segment in segments:
        by_line[segment[0]].append(segment)
    for line in range(segments[0][0], segments[-1][0] + 1):
        counts = [before[2]] if before[3] and not before[5] else []
        for segment in by_line[line]:
            counts += [segment[2]] if segment[3] and segment[4] and not segment[5] else []
            before = segment
        if counts:
            yield line, max(counts)


def text_at(text: str, place: Position) -> str:
    line, column, last, end = place
    lines = text.split("\n")[line - 1 : last]
    lines[-1] = lines[-1][: end - 1]
    lines[0] = lines[0][column - 1 :]
    return "\n".join(lines)


def add(counted: Counted, exported: Path) -> None:
    compiled = json.loads((exported.parent / "sources.json").read_text())
    for each in json.loads(exported.read_text())["data"][0]["files"]:
        path = os.path.relpath(each["filename"], REPOSITORY)
        if not path.startswith(SOURCES) or path.startswith(UNCOUNTED_FOLDER):
            continue
        if compiled.get(path) != digest_of_code(path):
            print(f"{exported.parent.name}: {path} has changed: not counted", file=sys.stderr)
            continue
        whole = (REPOSITORY / path).read_text()
        text = whole.split("\n")
        file, segments = counted.setdefault(path, File()), each["segments"]
        for line, count in lines_in(segments) if segments else ():
            file.lines[line] += count
        for first, column, last, end, true, false, *_ in each["branches"]:
            is_macro = (first, column) == (last, end)  # of CPython or the C library
            is_known = not true and not false and count_at(segments, first, column)  # when compiled
            if not (is_macro or is_known or "assert(" in text[first - 1]):
                if true and RETURNS_TWICE.fullmatch(text_at(whole, (first, column, last, end))):
                    false = true
                sums = file.branches[(first, column, last, end)]
                sums[0] += true
                sums[1] += false
        for first, column, last, end, *_, pairs in each["mcdc_records"]:
            place = (first, column, last, end, len(pairs))  # some are constants in one version
            seen = file.conditions.setdefault(place, [False] * len(pairs))
            seen[:] = [a or b for a, b in zip(seen, pairs, strict=True)]


def read(*what: str) -> Counted:
    counted: Counted = {}
    for path in sorted(path for one in what for path in BUILD.glob(f"*/*.{one}.json")):
        add(counted, path)
    return counted


REASON = re.compile(r"/\* not reached: (.*?) ?\*/", re.DOTALL)
OF_FILE = re.compile(r"/\* not reached in this file: (.*?) ?\*/", re.DOTALL)


def reasons(text: str) -> dict[int, str]:
    """By line, of the line that the comment ends on, or of the statement's head below it."""
    found, lines = {}, text.split("\n")
    for match in REASON.finditer(text):
        line = text.count("\n", 0, match.end()) + 1
        reason = " ".join(match[1].split())
        start = lines[text.count("\n", 0, match.start())]
        if start.strip().startswith("/*"):
            line += 1
            while not lines[line - 1].rstrip().endswith(("{", ";", ":")):
                found[line] = reason
                line += 1
        found[line] = reason
    return found


def why_not(text: str) -> dict[int, str]:
    """The reason of each line that has one."""
    found = reasons(text)
    if of_file := OF_FILE.search(text):
        whole = " ".join(of_file[1].replace("\n *", " ").split())
        found = dict.fromkeys(range(1, text.count("\n") + 2), whole) | found
    return found


@dataclass(frozen=True)
class Row:
    path: str
    lines: int
    lines_reached: int
    branches: int
    by_tests: int
    by_failures: int
    conditions: int
    conditions_shown: int
    of_a_failure: int
    excused: tuple[str, ...]
    open: tuple[tuple[Position, bool], ...]
    stale: tuple[int, ...]

    def cells(self, name: str) -> list[str]:
        return [
            name,
            f"{self.lines_reached / max(self.lines, 1):.1%}",
            f"{self.branches}",
            f"{self.by_tests}",
            f"{self.by_failures}",
            f"{len(self.excused)}",
            f"{self.branches - self.by_tests - self.by_failures - len(self.excused)}",
            f"{self.of_a_failure}",
            f"{self.conditions_shown} of {self.conditions}",
        ]


def is_of_a_failure(text: str, place: Position, outcome: bool) -> bool:
    return OF_A_FAILURE[outcome].fullmatch(text_at(text, place)) is not None


def row(path: str, tests: File, whole: File) -> Row:
    text = (REPOSITORY / path).read_text()
    known = why_not(text)
    left = list(whole.unreached())
    total = 2 * len(whole.branches)
    by_tests = sum(
        count > 0 for place in whole.branches for count in tests.branches.get(place, (0, 0))
    )
    open_ = tuple(each for each in left if each[0][0] not in known)
    pairs = [pair for pairs in whole.conditions.values() for pair in pairs]
    return Row(
        path,
        len(whole.lines),
        sum(count > 0 for count in whole.lines.values()),
        total,
        by_tests,
        total - by_tests - len(left),
        len(pairs),
        sum(pairs),
        sum(is_of_a_failure(text, *each) for each in open_),
        tuple(known[place[0]] for place, _ in left if place[0] in known),
        open_,
        tuple({*(reasons(text) if left else known)} - {place[0] for place, _ in left}),
    )


def together(rows: Iterable[Row], name: str) -> Row:
    rows = list(rows)
    names = ("lines", "lines_reached", "branches", "by_tests", "by_failures")
    names += ("conditions", "conditions_shown", "of_a_failure")
    sums = [sum(getattr(each, one) for each in rows) for one in names]
    return Row(name, *sums, tuple(reason for each in rows for reason in each.excused), (), ())


def page(rows: list[Row]) -> str:
    head = (
        "file", "lines", "branches", "by tests", "by failures", "with a reason", "open",
        "a failed call's", "MC/DC",
    )  # fmt: skip
    ordered = sorted(rows, key=lambda each: (-len(each.open), each.path))
    some = [each for each in ordered[:LISTED] if each.open]
    parts = [
        together((each for each in rows if each.path.startswith(source)), f"`{source}`")
        for source in SOURCES
    ]
    cells = [each.cells(each.path) for each in [*parts, together(rows, "all")]]
    cells += [each.cells(f"`{each.path.removeprefix('packages/image/src/')}`") for each in some]
    why = Counter(together(rows, "all").excused)
    common = [(str(n), reason) for reason, n in why.most_common() if n >= REASON_MIN_BRANCHES]
    rare = [n for n in why.values() if n < REASON_MIN_BRANCHES]
    common += [(str(sum(rare)), f"{len(rare)} more reasons, each with its line")] if rare else []
    minors = {each.minor for each in builds()}
    return f"""\
# Coverage of the C

`make coverage` builds the extension and `pasture-python` with clang's counters, runs the tests on
CPython {", ".join(sorted(minors))}, and writes this page. A branch is one outcome of a condition,
reached on at least one of them. *By failures*: only where
[a request fails](../../tests/failures/README.md). *With a reason*: the line says why
(`not reached: ...`). *A failed call's*: the outcome is what a call that fails gives, by the form of
the condition, as `== NULL`. MC/DC: conditions that were shown to decide by themselves. The verifier
is not counted, nor assertions, nor `restorer.c`. Files without an open branch are left out.
`make coverage ARGS=--open` lists what is open.

Pieces that have run: {", ".join(each.progress() for each in builds())}.

{table(head, cells)}

## Reasons

{table(("branches", "reason"), common)}
"""


def show(rows: Iterable[Row], names: list[str]) -> None:
    for each in rows:
        if Path(each.path).name in names or not names:
            lines = (REPOSITORY / each.path).read_text().split("\n")
            for (line, column, _, _), outcome in each.open:
                print(f"{each.path}:{line}:{column}: never {outcome}: {lines[line - 1].strip()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "minors", nargs="*", metavar="3.X", help="interpreters; none: write the page"
    )
    parser.add_argument("--open", nargs="*", metavar="FILE", help="show what is not reached")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="run such pieces")
    asked = parser.parse_args()
    for minor in asked.minors if asked.open is None else ():
        for is_check in (True, False):
            Build(minor, is_check).run(asked.only)
    if not asked.minors or asked.open is not None:
        for each in builds():
            each.keep()
    tests, whole = read(TESTS), read(TESTS, FAILURES)
    rows = [row(path, tests.get(path, File()), whole[path]) for path in sorted(whole)]
    if asked.open is not None:
        show(rows, asked.open)
        return 0
    PAGE.write_text(page(rows))
    stale = [f"{each.path}:{line}" for each in rows for line in each.stale]
    for one in stale:
        print(f"{one}: a reason, and the branch is reached")
    print(
        f"{sum(len(each.open) for each in rows)} branches are open; {PAGE.relative_to(REPOSITORY)}"
    )
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
