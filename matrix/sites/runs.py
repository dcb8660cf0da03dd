"""One run of a site under one mode: boot, session, reload, session, a command, the end.

Owns what is recorded of a run. Nothing of it is left running, whatever happens.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import requests

from matrix.agents.services import service
from matrix.sites.browser import Browser, Step, mask
from matrix.sites.catalog import Site
from matrix.sites.environments import PREPARE_S, restore_data, variables
from matrix.sites.modes import Mode
from pasture.errors import PastureError
from pasture.proc import tree
from pasture_tools.launch.ports import LOOPBACK, free_port
from pasture_tools.launch.session import Group

STOP_S = 60.0
_RELOADED_S = 2.0
_ASKED_AT_ONCE = 5
_COMPLAINT = re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b|\w+(Error|Exception)\b(?=:|$)")
_OWN = "pasture: "


@dataclass(frozen=True, slots=True)
class Run:
    """What one run came to.

    Attributes:
        failure: why it did not come to its end; "" if it did.
        rows: number of rows by table, of the site's databases.
        complaints: masked lines of the log that report an error, how often each.
        hazards: pasture's own lines at WARNING and above.
        exit_code: of the server, after SIGTERM.
        left: number of processes that outlived it.
    """

    failure: str = ""
    steps: tuple[Step, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    complaints: Mapping[str, int] = field(default_factory=dict)
    hazards: tuple[str, ...] = ()
    exit_code: int | None = None
    left: int = 0


def run_site(site: Site, mode: Mode) -> Run:
    """Run a site under a mode.

    Raises:
        click.ClickException: its data cannot be made, which says nothing of the mode.
    """
    with prepared(site) as offered:
        return _Running(site, mode, offered).run()


@contextmanager
def prepared(site: Site) -> Iterator[dict[str, str]]:
    """Its services run, empty, and its data are as they were first made; what services offer.

    Raises:
        click.ClickException: the data cannot be made.
    """
    with ExitStack() as stack:
        offered: dict[str, str] = {}
        folder = site.folder / "services"
        for name in site.services:
            place = _empty(folder / name)
            offered |= stack.enter_context(service(name, site.python_program, place)).variables
        restore_data(site, offered)
        yield offered


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


class _Running:
    """A run in progress."""

    def __init__(self, site: Site, mode: Mode, offered: Mapping[str, str]) -> None:
        self.site, self.mode, self.offered = site, mode, offered
        self.port = free_port()
        self.base = f"http://{LOOPBACK}:{self.port}"
        self.env = variables(site, {**offered, "port": str(self.port)})
        self.env |= mode.environment(site.warm)
        self.server_env = self.env | mode.environment(site.warm, site.refork)
        self.log = site.folder / f"{mode.name}.log"
        self.steps: list[Step] = []
        self.session = _session(site).session

    def run(self) -> Run:
        self.log.unlink(missing_ok=True)
        failure, code, left = "", None, 0
        try:
            with self._beside(), self._started() as server:
                self._serve(server)
                code, left = self._stop(server)
            if self.site.broken:
                self._boot_broken()
        except PastureError as error:
            failure = f"{error}"
        rows = _rows(self.site.data)
        complaints, hazards = self._read_log()
        return Run(failure, tuple(self.steps), rows, complaints, hazards, code, left)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        with ExitStack() as stack:
            for number, words in enumerate(self.site.beside):
                log = self.site.folder / f"{self.mode.name}-beside-{number}.log"
                command = self._found(self.mode.command(words))
                stack.enter_context(Group(command, log=log, env=self.env, cwd=self._folder))
            yield

    @contextmanager
    def _started(self) -> Iterator[Group]:
        with Group(self._server, log=self.log, env=self.server_env, cwd=self._folder) as server:
            server.wait_for(self._answers, "it does not answer", timeout_s=self.site.start_s)
            yield server

    @property
    def _server(self) -> list[str]:
        return self._found(self.mode.command(self.site.serve))

    def _found(self, words: Sequence[str]) -> list[str]:
        """A command with its placeholders replaced, its program out of the site's environment."""
        known = {**self.offered, "port": str(self.port)}
        first, *others = [self.site.filled(word, known) for word in words]
        program = self.site.environment / "bin" / first
        return [str(program if program.exists() else first), *others]

    @property
    def _folder(self) -> Path:
        return self.site.data / self.site.chdir

    def _answers(self, path: str = "") -> bool:
        try:
            requests.get(self.base + (path or self.site.ready), timeout=10, allow_redirects=False)
        except requests.RequestException:
            return False
        return True

    def _serve(self, server: Group) -> None:
        self._act(1)
        if self.site.command:
            self._run_command()
        if self.site.recycle:
            self._recycle(server)
        if self.site.reload:
            self._reload(server)
            server.wait_for(self._answers, "not after a reload", timeout_s=self.site.start_s)
            self._act(2)

    def _reload(self, server: Group) -> None:
        """Send SIGHUP, and wait until no worker of before is left."""
        before = set(tree.workers_of(server.pid))
        server.send_signal(signal.SIGHUP)

        def replaced() -> bool:
            now = set(tree.workers_of(server.pid))
            return bool(now) and not now & before

        server.wait_for(replaced, "workers are not replaced", timeout_s=self.site.start_s)
        time.sleep(_RELOADED_S)

    def _recycle(self, server: Group) -> None:
        """Ask for a page until a process of before has ended and another has come for it."""
        before = set(server.members())

        def replaced() -> bool:
            fine = [self._answers(self.site.recycle) for _ in range(_ASKED_AT_ONCE)]
            now = set(server.members())
            return all(fine) and bool(before - now) and bool(now - before)

        server.wait_for(replaced, "no worker is recycled", timeout_s=self.site.start_s)
        self.steps.append(Step("a worker is recycled", 0, "done"))

    def _boot_broken(self) -> None:
        """Start the server so that its boot fails: the step has how it ended, if it did."""
        log = self.site.folder / f"{self.mode.name}-broken.log"
        log.unlink(missing_ok=True)
        env = self.server_env | {
            name: self.site.filled(value, self.offered) for name, value in self.site.broken.items()
        }
        with Group(self._server, log=log, env=env, cwd=self._folder) as server:
            code = server.exit_code(self.site.start_s)
        self.steps.append(Step("a boot that fails", 0, _end(code)))

    def _act(self, round_: int) -> None:
        browser = Browser(self.base, round_, self.offered)
        try:
            self.session(browser)
        except Exception as error:  # what the session expected of an answer did not hold
            browser.note("the session broke off", 0, f"{type(error).__name__}: {error}")
        self.steps += browser.steps

    def _run_command(self) -> None:
        words = self._found(self.site.command)
        done = subprocess.run(
            words, env=self.env, cwd=self._folder, capture_output=True, text=True, timeout=PREPARE_S
        )
        printed = "\n".join(line for line in done.stdout.splitlines() if _OWN not in line)
        (self.site.folder / f"{self.mode.name}-command.log").write_text(done.stderr)
        name = f"command {shlex.join(map(str, self.site.command))}"
        self.steps.append(Step(mask(name), done.returncode, mask(printed)))

    def _stop(self, server: Group) -> tuple[int, int]:
        server.terminate()
        code = server.wait(STOP_S)
        deadline = time.monotonic() + 5
        while server.members() and time.monotonic() < deadline:
            time.sleep(0.1)
        return code, len(server.members())

    def _read_log(self) -> tuple[dict[str, int], tuple[str, ...]]:
        found: Counter[str] = Counter()
        hazards: list[str] = []
        logs = [self.log, *sorted(self.site.folder.glob(f"{self.mode.name}-beside-*.log"))]
        for log in logs:
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            for line in text.splitlines():
                if _OWN in line:
                    if re.search(r"WARN|ERROR|CRIT", line, re.IGNORECASE):
                        hazards.append(line[:500])
                elif _COMPLAINT.search(line):
                    found[mask(line.strip())[:300]] += 1
        return dict(found), tuple(hazards)


def _end(code: int | None) -> str:
    """How a server ended that could not boot.

    Which of its codes says so is not compared. Where the parent loads the application it is not the
    code of a worker, and gunicorn ends with 3 or 1, as it happens, where several workers fail.
    """
    if code is None:
        return "it runs on"
    return "it failed" if code > 0 else f"it ended with {code}"


def _session(site: Site) -> ModuleType:
    path = site.session_file
    spec = importlib.util.spec_from_file_location(f"session_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _rows(data: Path) -> dict[str, int]:
    """Rows by table of the databases below a folder. Names that are masked alike count together."""
    found: Counter[str] = Counter()
    for file in sorted(data.rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        with file.open("rb") as start:
            if start.read(15) != b"SQLite format 3":
                continue
        found.update(_rows_of(file, mask(file.relative_to(data).as_posix())))
    return dict(found)


def _rows_of(file: Path, name: str) -> dict[str, int]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        try:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {
                f"{name}:{table}": database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
                for (table,) in tables.fetchall()
                if not table.startswith("sqlite_")
            }
        except sqlite3.Error:  # a virtual table whose module is not here
            return {}
