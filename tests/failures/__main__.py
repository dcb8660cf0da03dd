"""Each allocation and each system call fails, the n-th for every n: `make test-failures`.

Reads nothing but what it has written to build/failures before, and goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from entries import ENTRIES
from known import BEFORE_MAIN, FSTAT, READ, UNREAD, is_known
from placed import PLACED, Attempts

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
SCRATCH = REPOSITORY / "build" / "failures" / os.environ.get("PYTEST_XDIST_WORKER", "")
"""Workers of the tests have a folder each: two would have the same program in one at once."""
CALLS_MARK = 0x7061
MODES = {"places": (0,), "memory": (0, 3), "malloc": (0, 3), "calls": (0, 1, 2, 3)}
MODE_NAMES = ("one fails", "one, another error", "one writes half", "all from the n-th on")
START_LIMIT_S = 60

SLOTS: queue.SimpleQueue[int] = queue.SimpleQueue()

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
IMAGE = {"PASTURE_IMAGE": "{}/app.img", "PYTHONPATH": "{}/lib"}
SOURCE = ("-c", "import json, sys; print(json.dumps([1])); sys.exit(42)")
STARTS = {
    "image": (IMAGE, ("-c", "import json, sys, keeps; print(keeps.rest()); sys.exit(42)")),
    "script": (IMAGE, ("program.py",)),
    "beside": (IMAGE, SOURCE),
    "no_image": ({"PASTURE_IMAGE": "none.img"}, SOURCE),
    "folder": ({"PASTURE_IMAGE": "{}"}, SOURCE),
    "facts": ({}, ("--pasture-facts", "../app.img")),
    "record": ({}, ("--pasture-record", "{record}", "/bin/ls", "-d", "/")),
}
"""Variables and words of a start by pasture-python, in a folder below one with an image. What is
recorded has a status of its own, which the recorder's is not."""
KEEPS = """\
import ctypes, os
HERE = os.path.dirname(__file__)
LIBRARY = ctypes.CDLL(f"{HERE}/library.so")
FILE = ctypes.CDLL(None).open(f"{HERE}/data".encode(), os.O_RDONLY | os.O_CLOEXEC)
os.read(FILE, 2)
HAS = "data" in os.listdir(HERE)
ANSWERS = [open(f"/proc/sys/kernel/{name}").read() for name in ("ostype", "osrelease")]
def rest():
    return os.read(FILE, 9), LIBRARY.answer(), HAS
"""
"""A module with a file that it has read of, and a library that is known by all of its bytes."""
MADE_LATER = b"one is made in the background"

EMPTY = b"int main(void) { return 0; }"
INTERPRETER = """
import ctypes, sysconfig
print(sysconfig.get_path("include"))
runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
first = {}
for line in open("/proc/self/maps"):
    span, *_, path = line.split()
    start, end = [int(word, 16) for word in span.split("-")]
    first.setdefault(path, start)
    if start <= runtime < end:
        print(path, runtime - first[path], sep="\\n")
"""
"""Prints the folder of headers, the file that holds `_PyRuntime`, and how far behind its start."""


@dataclass(frozen=True)
class Row:
    """One entry point with one kind of failure."""

    entry: str
    kind: str
    mode: int
    is_once: bool = False

    def __str__(self) -> str:
        return f"{self.entry}, {self.kind}, {MODE_NAMES[self.mode]}"


def build(python: Path) -> Path:
    """Both programs in C, for an interpreter: the folder."""
    header, interpreter, runtime_at = subprocess.check_output(
        [python, "-c", INTERPRETER], text=True
    ).splitlines()
    key = hashlib.sha256(str(python).encode())
    environment = python.parent.parent
    sources = [*HERE.glob("[!t]*.[chp]*"), *environment.rglob("pasture/_native*.so")]
    for folder in ("src", "packages/image/src", "packages/auto/src"):
        sources += (REPOSITORY / folder).rglob("*.py")
    for path in [*sorted(sources), python.parent / "pasture-python"]:
        key.update(path.read_bytes())
    folder = SCRATCH / f"{environment.name}-{key.hexdigest()[:12]}"
    if not (folder / "calls").exists():
        for old in SCRATCH.glob(f"{environment.name}-" + 12 * "[0-9a-f]"):
            shutil.rmtree(old)
        folder.mkdir(parents=True)
        compile_c = [
            "cc",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-cast-function-type",
            f"-DCALLS_MARK={CALLS_MARK}",
        ]
        shared = ["-shared", "-fPIC", f"-I{header}"]
        subprocess.check_call(
            [*compile_c, *shared, "-o", folder / "failing.so", HERE / "failing.c"]
        )
        places = [f"-I{header}", f'-DINTERPRETER="{interpreter}"', f"-DRUNTIME_AT={runtime_at}"]
        calls = [HERE / "calls.c", HERE / "places.c"]
        empty = ["cc", "-static", "-x", "c", "-", "-o", folder / "empty"]
        subprocess.run(empty, input=EMPTY, check=True)
        subprocess.check_call([*compile_c, *places, "-o", folder / "calls", *calls])
    return folder


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_entry(python: Path, folder: Path, row: Row, first: int, step: int) -> Generator[str]:
    """Lines of program.py, from the n that is the first one missing."""
    words = [str(python), str(HERE / "program.py"), row.entry, row.kind]
    words += [str(row.mode), str(first), str(step), *["once"] * row.is_once]
    traced = [str(folder / "calls"), os.devnull] if row.kind == "calls" else []
    environ = ENVIRON | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(HERE)]),
        "PYTHONHASHSEED": "0",
    }
    work = folder / f"work-{row.entry}-{row.kind}-{row.mode}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    command = [*traced, "env", f"LD_PRELOAD={folder / 'failing.so'}", *words]
    with subprocess.Popen(
        command, env=environ, cwd=work, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            yield from process.stdout
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    shutil.rmtree(work, ignore_errors=True)


def run_start(python: Path, folder: Path, row: Row, first: int, step: int) -> Generator[str]:
    """Starts by pasture-python, each in a process of its own."""
    stub = python.parent / "pasture-python"
    record = os.memfd_create("record", 0)
    variables, words = STARTS[row.entry]
    words = tuple(word.replace("{record}", str(record)) for word in words)
    top = folder / f"image-{row.entry}-{row.mode}"
    work = top / "here"
    environ = of_a_start(row.mode) | {n: value.format(top) for n, value in variables.items()}
    if not (top / "app.img").exists():
        build_image(python, top, environ)
        work.mkdir()
        (work / "program.py").write_text(SOURCE[1])
        if row.entry == "beside":
            (work / "json.py").write_text("def dumps(_): return 'own'\n")
    command = [stub, *words]
    plain = environ | {"PASTURE_IMAGE": "0"}
    whole = subprocess.run(
        command, cwd=work, env=plain, capture_output=True, check=False, pass_fds=(record,)
    )
    if row.entry == "auto_image":
        make_automatically(command, top, environ)
    for n in count(first, step):
        log = top / "log"
        if row.entry == "auto":
            shutil.rmtree(top / "cache", ignore_errors=True)
            (top / "cache").mkdir()
        command = [folder / "calls", log, stub.name, str(n), str(row.mode), stub, *words]
        line: dict[str, Any] = {"n": n, "failed": -1, "raised": ""}
        try:
            done = subprocess.run(
                command,
                cwd=work,
                env=environ,
                capture_output=True,
                check=False,
                timeout=START_LIMIT_S,
                pass_fds=(record,),
            )
        except subprocess.TimeoutExpired:
            line["wrong"] = f"not at its end after {START_LIMIT_S} s"
        else:
            line |= json.loads(log.read_text())
            del line["places"]
            is_same = (done.returncode, done.stdout) == (whole.returncode, whole.stdout)
            line["raised"] = "" if is_same else f"status {done.returncode}"
            if done.returncode < 0:
                is_c_start = ends_before_main(folder, row.mode, n, done.returncode)
                where = f" {BEFORE_MAIN}" if is_c_start else ""
                line["wrong"] = signal.Signals(-done.returncode).name + where
            elif not is_same and not (done.stderr and (done.returncode or row.entry == "record")):
                line["wrong"] = f"status {done.returncode} and {done.stdout!r} without a word"
                if row.entry == "script" and line["failed"] in (FSTAT, READ):
                    line["wrong"] += f", {UNREAD}" * (done.returncode == 0 and not done.stdout)
            elif line["left"] and MADE_LATER not in done.stderr:
                line["wrong"] = f"{line['left']} processes are left"
            if "wrong" in line:
                line["wrong"] += "\n" + done.stderr[-3000:].decode(errors="replace")
        yield json.dumps(line)
        if line["failed"] == 0:
            break


def of_a_start(mode: int) -> dict[str, str]:
    """Variables. A heap that grows by what is asked for alone has no memory at more places, where
    no call brings any: glibc's own crashes where one that follows does."""
    from_then_on = mode == MODES["calls"][-1]
    return ENVIRON | ({"GLIBC_TUNABLES": "glibc.malloc.top_pad=0"} if from_then_on else {})


def ends_before_main(folder: Path, mode: int, n: int, status: int) -> bool:
    """Whether a static program that does nothing ends by that signal where the same calls fail."""
    empty = folder / "empty"
    command = [folder / "calls", os.devnull, empty.name, str(n), str(mode), empty]
    done = subprocess.run(command, env=of_a_start(mode), capture_output=True)
    return done.returncode == status


def build_image(python: Path, top: Path, environ: dict[str, str]) -> None:
    shutil.rmtree(top, ignore_errors=True)
    (top / "lib").mkdir(parents=True)
    (top / "lib" / "keeps.py").write_text(KEEPS)
    (top / "lib" / "data").write_text("a file")
    compile_c = ["cc", "-shared", "-fPIC", "-x", "c", "-"]
    source = b"int answer(void) { return 1; }"
    subprocess.run([*compile_c, "-o", top / "lib" / "library.so"], input=source, check=True)
    build = ["-m", "pasture", "image", "build", "-o", "app.img", "--preload", "json"]
    if "PYTHONPATH" in environ:
        build[-1] += ",keeps"
    plain = environ | {"PASTURE_IMAGE": "0"}
    subprocess.check_call([python, *build], cwd=top, env=plain, stdout=subprocess.DEVNULL)


def make_automatically(command: list[str | Path], top: Path, environ: dict[str, str]) -> None:
    """An image by a first start, which waits for it here."""
    deadline = time.monotonic() + START_LIMIT_S
    (top / "cache").mkdir(exist_ok=True)
    subprocess.run(command, cwd=top / "here", env=environ, capture_output=True, check=False)
    while not [*top.glob("cache/pasture/images/*.img")]:
        assert time.monotonic() < deadline, "no image is made"
        time.sleep(0.2)


def run_placed(python: Path, folder: Path, row: Row, first: int, step: int) -> Generator[str]:
    """The calls of each place: placed.py."""
    for line in Attempts(python, folder, row.entry, row.mode, SLOTS).run(first, step):
        yield json.dumps(line)


def is_end(line: dict[str, Any]) -> bool:
    """None was left to fail. A server's point that was not met again is none."""
    return line["failed"] == 0 and "where" not in line


def go_on(python: Path, folder: Path, row: Row, step: int, limit_s: float) -> list[dict[str, Any]]:
    """What was seen, and what was missing."""
    path = folder / f"{row.entry}.{row.kind}.{row.mode}.jsonl"
    lines = lines_of(path)
    first = lines[-1]["n"] + step if lines else 1
    deadline, is_late = time.monotonic() + limit_s, limit_s == 0
    if not is_late and (not lines or not is_end(lines[-1])):
        run = run_start if row.entry in STARTS else run_placed if row.entry in PLACED else run_entry
        with (
            path.open("a", buffering=1) as file,
            contextlib.closing(run(python, folder, row, first, step)) as found,
        ):
            for line in found:
                file.write(line.rstrip() + "\n")
                if is_late := time.monotonic() > deadline:
                    break
        lines = lines_of(path)
    if not is_late and (not lines or not is_end(lines[-1])):
        lines.append(
            {"n": len(lines) + 1, "failed": -1, "raised": "", "wrong": "the program ended"}
        )
    return lines


def rows(names: list[str], kind: str | None, mode: int | None, is_once: bool) -> list[Row]:
    every = [*ENTRIES, *STARTS, *PLACED]
    if unknown := {*names} - {*every}:
        sys.exit(f"no such entry point: {', '.join(unknown)}; there are {', '.join(every)}")
    return [
        Row(entry, each, one, is_once)
        for entry in names or every
        for each, modes in MODES.items()
        for one in modes
        if kind in (None, each) and mode in (None, one)
        if each == "calls" or (entry in ENTRIES and each in ENTRIES[entry].kinds)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="*", help="entry points; without any, all")
    parser.add_argument("--kind", choices=MODES, help="of failure; without it, all")
    parser.add_argument(
        "--mode",
        type=int,
        choices=range(len(MODE_NAMES)),
        help="; ".join(f"{mode}: {name}" for mode, name in enumerate(MODE_NAMES)),
    )
    parser.add_argument("--step", type=int, default=1, help="every N-th point alone")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="for each row; 0 shows what is kept"
    )
    parser.add_argument("--once", action="store_true", help="do not look whether anything grows")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time, and servers")
    asked = parser.parse_args()
    if platform.machine() != "x86_64":
        sys.exit("system calls are failed on x86-64 alone")
    python = Path(sys.executable)
    folder = build(python)
    for slot in range(asked.jobs):
        SLOTS.put(slot)
    points = wrong = known = 0

    def lines_of_row(row: Row) -> list[dict[str, Any]]:
        return go_on(python, folder, row, asked.step, 60 * asked.minutes)

    asked_for = rows(asked.entries, asked.kind, asked.mode, asked.once)
    pool = ThreadPoolExecutor(asked.jobs)
    for row, lines in zip(asked_for, pool.map(lines_of_row, asked_for), strict=True):
        faults = [line for line in lines if "wrong" in line]
        bad = [line for line in faults if not is_known(line["wrong"], line["failed"])]
        known += len(faults) - len(bad)
        failed = sum(line["failed"] != 0 for line in lines)
        raised = Counter(line["raised"] for line in lines if line["raised"])
        points, wrong = points + failed, wrong + len(bad)
        end = "" if lines and is_end(lines[-1]) else ", not at its end"
        print(f"{row}: {failed} points, {dict(raised) or 'nothing raised'}{end}", flush=True)
        for line in bad[:3]:
            print(f"  n = {line['n']}, call {line['failed']}: {line['wrong'].strip()}\n")
        if len(bad) > 3:
            print(f"  and {len(bad) - 3} more")
    print(f"{points} points, {wrong} wrong, {known} that are others'")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
