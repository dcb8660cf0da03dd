"""Changes one line at a time and runs the test that must fail: `make test-mutants`.

Owns a copy of the sources and its builds under build/mutants. Invariant: the tree itself is not
changed. What was seen is kept by a hash of the sources, the mutant and its test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TABLE = Path(__file__).parent / "mutants.toml"
SCRATCH = REPOSITORY / "build" / "mutants"
TREE = SCRATCH / "tree"
SEEN = SCRATCH / "seen.json"
COPIED = ("src", "tests", "CMakeLists.txt", "pyproject.toml", "conftest.py", "tools")
LIMIT_S = 900
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:pasture")
"""Without the one of the tree itself, which the environment of a mutant lacks."""
KILLED, SURVIVED = "killed", "survived"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed line.

    Attributes:
        name: in the table.
        file: that holds the line, below the repository's root.
        line: as it stands there, without its indentation.
        mutated: what stands there instead.
        test: words for pytest.
        python: minor version that the test needs.
        check: whether it needs the check build.
        reason: why it may survive; "" if it may not.
    """

    name: str
    file: str
    line: str
    mutated: str
    test: str
    python: str = "3.14"
    check: bool = False
    reason: str = ""

    def apply(self, text: str) -> str:
        """The text with the line changed; ValueError where it does not stand there once."""
        lines = text.splitlines(keepends=True)
        places = [i for i, line in enumerate(lines) if line.strip() == self.line]
        if len(places) != 1:
            raise ValueError(f"{self.name}: {self.file} has {len(places)} such lines: {self.line}")
        lines[places[0]] = lines[places[0]].replace(self.line, self.mutated)
        return "".join(lines)


def read_table() -> list[Mutant]:
    """All mutants, in the order of the file."""
    return [Mutant(name, **row) for name, row in tomllib.loads(TABLE.read_text()).items()]


class Build:
    """The copy of the tree, built for one interpreter in one way, and an environment with it."""

    def __init__(self, python: str, check: bool) -> None:
        self._base = REPOSITORY / ".venvs" / python
        self._folder = SCRATCH / f"{python}{'-check' * check}"
        self._python = self._folder / "environment" / "bin" / "python"
        self._check = check

    def exists(self) -> bool:
        """Whether there is such an interpreter."""
        return (self._base / "bin" / "python").exists()

    def prepare(self) -> None:
        """An environment with the packages of the ordinary one, and the copy for its pasture."""
        base_python = str(self._base / "bin" / "python")
        environment = self._folder / "environment"
        _run([base_python, "-m", "venv", "--without-pip", "--clear", str(environment)])
        packages = _packages_of(base_python)
        own = _packages_of(str(self._python))
        (own / "mutants.pth").write_text(f"{TREE / 'src'}\n{packages}\n")
        flags = ["-DCMAKE_BUILD_TYPE=Release", "-DSKBUILD_SCRIPTS_DIR=bin"]
        flags += [f"-DPython_EXECUTABLE={base_python}", f"-DPASTURE_CHECK={'ON' * self._check}"]
        _run([*_cmake(), "-S", str(TREE), "-B", str(self._folder / "objects"), *flags])

    def make(self) -> None:
        """Build what has changed."""
        objects = self._folder / "objects"
        _run([*_cmake(), "--build", str(objects), "--target", "_native", "--parallel", "2"])
        built = next(objects.glob("_native*.so"))
        # Not over the old one: what is mapped would change.
        package = TREE / "src" / "pasture"
        for old in package.glob("_native*.so"):
            old.unlink()
        shutil.copy(built, package)

    def run(self, test: str) -> int:
        """The exit status of pytest."""
        words = ["-m", "pytest", "-q", "-x", *PLUGINS, *shlex.split(test)]
        try:
            done = subprocess.run(
                [str(self._python), *words],
                cwd=TREE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT_S,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return 1
        (self._folder / "last.log").write_bytes(done.stdout)
        return done.returncode


def _packages_of(python: str) -> Path:
    words = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


def _cmake() -> list[str]:
    found = shutil.which("cmake")
    return [found] if found else [str(REPOSITORY / "tools" / "uv"), "tool", "run", "cmake"]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def copy_tree() -> None:
    """Bring the copy up to date. Files that are the same stay, and so do their objects."""
    wanted = {path.relative_to(REPOSITORY) for name in COPIED for path in _files(REPOSITORY / name)}
    for path in _files(TREE):
        if path.relative_to(TREE) not in wanted:
            path.unlink()
    for name in wanted:
        content = (REPOSITORY / name).read_bytes()
        copy = TREE / name
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod((REPOSITORY / name).stat().st_mode)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for each in path.rglob("*") if path.is_dir() else ():
        if each.is_file() and "__pycache__" not in each.parts and each.suffix != ".so":
            yield each


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The copy with one line changed."""
    path = TREE / mutant.file
    before = path.read_text()
    path.write_text(mutant.apply(before))
    try:
        yield
    finally:
        path.write_text(before)


def key_of(mutant: Mutant) -> str:
    """Changes with the mutant, the file that it changes, and its test."""
    digest = hashlib.sha256(repr(mutant).encode())
    tests = [word for word in shlex.split(mutant.test) if word.endswith(".py")]
    for name in (mutant.file, *tests):
        digest.update((REPOSITORY / name).read_bytes())
    return digest.hexdigest()


def try_all(mutants: Sequence[Mutant], seen: dict[str, str]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant, and what became of it."""
    copy_tree()
    prepared: dict[tuple[str, bool], Build] = {}
    passed: set[tuple[str, str, bool]] = set()
    for mutant in sorted(mutants, key=lambda one: (one.python, one.check)):
        key = key_of(mutant)
        if key not in seen:
            outcome = _try(mutant, prepared, passed)
            if outcome not in (KILLED, SURVIVED):
                yield mutant, outcome
                continue
            seen[key] = outcome
            SEEN.write_text(json.dumps(seen, indent=1))
        yield mutant, seen[key]


def _try(
    mutant: Mutant,
    prepared: dict[tuple[str, bool], Build],
    passed: set[tuple[str, str, bool]],
) -> str:
    build = Build(mutant.python, mutant.check)
    if not build.exists():
        return f"not tried: there is no .venvs/{mutant.python}"
    if (mutant.python, mutant.check) not in prepared:
        build.prepare()
        prepared[mutant.python, mutant.check] = build
    if (mutant.test, mutant.python, mutant.check) not in passed:
        build.make()
        if build.run(mutant.test) != 0:
            return "not tried: the test fails, or does not run, without it"
        passed.add((mutant.test, mutant.python, mutant.check))
    with applied(mutant):
        try:
            build.make()
        except RuntimeError as error:
            return f"not tried: it does not compile: {error}"
        status = build.run(mutant.test)
    return {0: SURVIVED, 1: KILLED}.get(status, f"not tried: pytest ended with {status}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="these mutants alone")
    parser.add_argument("--again", action="store_true", help="also those that were seen before")
    options = parser.parse_args()
    mutants = [one for one in read_table() if not options.names or one.name in options.names]
    SCRATCH.mkdir(parents=True, exist_ok=True)
    seen = json.loads(SEEN.read_text()) if SEEN.exists() and not options.again else {}
    bad = 0
    counts = {KILLED: 0, SURVIVED: 0}
    for mutant, outcome in try_all(mutants, seen):
        counts[outcome] = counts.get(outcome, 0) + 1
        is_bad = outcome != KILLED and not mutant.reason
        bad += is_bad
        reason = f" ({mutant.reason})" if outcome == SURVIVED and mutant.reason else ""
        print(f"{'! ' if is_bad else '  '}{mutant.name}: {outcome}{reason}", flush=True)
    print(f"{len(mutants)} mutants: {counts[KILLED]} killed, {counts[SURVIVED]} survived")
    return 1 if bad else 0


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
