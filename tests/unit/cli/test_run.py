"""The arguments of `pasture run`, and how they reach the server that takes its place."""

import importlib.util
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from pasture.errors import MissingExtra, UnknownPolicy, UsageError
from pasture.servers import one_process
from pasture_tools.cli.main import run
from pasture_tools.cli.run import command as run_command


@dataclass
class Exec:
    """What the process would have been replaced by."""

    argv: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    def __call__(self, program: str, argv: list[str], environ: dict[str, str]) -> None:
        assert program == sys.executable
        self.argv, self.environ = argv, environ


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Exec:
    for name in ("PASTURE_POLICY", "PASTURE_WARM", "PASTURE_WARM_FILE"):
        monkeypatch.delenv(name, raising=False)
    call = Exec()
    monkeypatch.setattr(os, "execve", call)
    return call


def test_what_follows_the_server_goes_to_it_untouched(replaced: Exec) -> None:
    assert run(["run", "gunicorn", "-w", "8", "--policy", "theirs", "--help", "app:app"]) == 0
    assert replaced.argv[1:] == [
        *("-m", "pasture.servers.gunicorn"),
        *("-w", "8", "--policy", "theirs", "--help", "app:app"),
    ]


def test_a_server_may_be_named_by_its_path(replaced: Exec) -> None:
    assert run(["run", "/opt/site/bin/gunicorn", "app:app"]) == 0
    assert replaced.argv[1:] == ["-m", "pasture.servers.gunicorn", "app:app"]


def test_options_travel_in_the_environment(replaced: Exec, tmp_path: Path) -> None:
    file = tmp_path / "warm"
    file.write_text("/c\n")
    options = ["--policy", "freeze", "--warm", "/a", "--warm", "POST /b"]
    files = ["--warm", "Cookie: x=1", "--warm-file", str(file)]
    assert run(["run", *options, *files, "gunicorn", "app:app"]) == 0
    assert replaced.environ["PASTURE_POLICY"] == "freeze"
    assert replaced.environ["PASTURE_WARM"].splitlines() == ["/a", "POST /b", "Cookie: x=1"]
    assert replaced.environ["PASTURE_WARM_FILE"] == str(file)


def test_variables_that_no_option_sets_stay_as_they_are(
    replaced: Exec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASTURE_POLICY", "stock")
    monkeypatch.setenv("OTHER", "1")
    assert run(["run", "gunicorn", "app:app"]) == 0
    assert replaced.environ["PASTURE_POLICY"] == "stock"
    assert replaced.environ["OTHER"] == "1"
    assert "PASTURE_WARM" not in replaced.environ


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["--policy", "seel", "gunicorn", "app:app"], UnknownPolicy.exit_code),
        (["--warm", "shop", "gunicorn", "app:app"], UsageError.exit_code),
        (["--warm", "Cookie", "gunicorn", "app:app"], UsageError.exit_code),
        (["--warm-file", "/does/not/exist", "gunicorn", "app:app"], UsageError.exit_code),
        (["--warm-total-timeout", "-1", "gunicorn", "app:app"], UsageError.exit_code),
        (["--max-uss", "some", "gunicorn", "app:app"], UsageError.exit_code),
        (["--max-uss", "200M", "python", "app.py"], UsageError.exit_code),
        (["--refork", "fifty", "gunicorn", "app:app"], UsageError.exit_code),
        (["--refork", "50", "uwsgi"], UsageError.exit_code),
        (["--policy", "", "gunicorn", "app:app"], UnknownPolicy.exit_code),
        (["--max-uss", "", "gunicorn", "app:app"], UsageError.exit_code),
        (["--refork", "", "gunicorn", "app:app"], UsageError.exit_code),
        (["waitress-serve", "app:app"], UsageError.exit_code),
        ([], UsageError.exit_code),
    ],
)
def test_a_mistake_is_reported_before_any_server_starts(
    replaced: Exec, arguments: list[str], exit_code: int
) -> None:
    assert run(["run", *arguments]) == exit_code
    assert replaced.argv == []


@pytest.mark.parametrize(
    ("server", "installed_by"),
    [("gunicorn", "pasture[gunicorn]"), ("huey_consumer", "huey"), ("rq", "rq")],
)
def test_a_server_that_is_not_installed_is_named(
    replaced: Exec,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    server: str,
    installed_by: str,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["run", server, "app:app"]) == MissingExtra.exit_code
    assert f"pip install '{installed_by}'" in capsys.readouterr().err


VALUED = [
    name
    for one in run_command.params
    if isinstance(one, click.Option) and not one.is_flag
    for name in one.opts
    if name != "--auto"  # its value is optional
]


@pytest.mark.parametrize("rest", [["-w", "2", "app:app"], ["app:app"], []])
@pytest.mark.parametrize("option", VALUED)
def test_an_option_that_took_the_servers_name_is_named_with_what_it_takes(
    replaced: Exec, capsys: pytest.CaptureFixture[str], option: str, rest: list[str]
) -> None:
    assert run(["run", "--strict", option, "gunicorn", *rest]) == UsageError.exit_code
    words = capsys.readouterr().err
    assert f"error: {option} took 'gunicorn' as its " in words
    assert f"hint: pasture run {option} " in words and replaced.argv == []


def test_the_name_of_a_server_may_be_the_value_of_an_option(
    replaced: Exec, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["run", "--preload", "celery", "gunicorn", "app:app"])
    assert replaced.environ["PASTURE_PRELOAD"] == "celery"
    run(["run", "--preload", "celery", "--nonsense", "gunicorn", "app:app"])
    assert "there is no option --nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("program", one_process.PROGRAMS)
def test_a_server_that_forks_nothing_is_refused_with_one_that_does(
    capsys: pytest.CaptureFixture[str], program: str
) -> None:
    assert run(["run", f"/opt/site/bin/{program}", "app:app"]) == UsageError.exit_code
    shown = capsys.readouterr().err
    assert f"{one_process.PROGRAMS[program]} serves in one process" in shown
    assert "hint: `pasture run " in shown


@pytest.mark.parametrize(
    ("first_lines", "python"),
    [
        ("#!{own}/python", "python"),
        ("#!/usr/bin/env python3.14", "python"),
        ("#! /opt/site/bin/python3 -I", "/opt/site/bin/python3"),
        ('#!/bin/sh\n\'\'\'exec\' "/opt/site/bin/python" "$0" "$@"', "/opt/site/bin/python"),
        ("#!/bin/sh", None),
        ("\x7fELF", None),
    ],
)
def test_the_hint_for_a_script_that_is_no_server_can_be_followed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, first_lines: str, python: str | None
) -> None:
    script = tmp_path / "site-api"
    script.write_text(first_lines.format(own=Path(sys.executable).parent) + "\n")
    script.chmod(0o755)
    assert run(["run", str(script), "-w", "8"]) == UsageError.exit_code
    shown = f"{python} {script} ..." if python else "python app.py"
    assert f"pasture run -- {shown}" in capsys.readouterr().err


def test_uwsgis_own_program_stands_in_for_a_package_that_is_not_installed(
    replaced: Exec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["run", "uwsgi", "--master"]) == MissingExtra.exit_code
    (tmp_path / "uwsgi").touch(mode=0o755)
    assert run(["run", "uwsgi", "--master"]) == 0
    assert replaced.argv[-3:] == ["-m", "pasture.servers.uwsgi", "--master"]


def learned_by(replaced: Exec, *words: str) -> Path:
    assert run(["run", *words]) == 0
    assert "PASTURE_REFORK" not in replaced.environ
    return Path(replaced.environ["PASTURE_AUTO"])


def test_auto_has_a_file_in_the_cache_for_each_command_and_environment(
    replaced: Exec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ("--auto", "gunicorn", "app:app", "--auto")
    first = learned_by(replaced, *words)
    assert replaced.argv[-2:] == ["app:app", "--auto"]
    assert first.parent == tmp_path / "pasture" / "learned"
    monkeypatch.setenv("SHLVL", "7")
    monkeypatch.setenv("SSH_CONNECTION", "another login")
    assert learned_by(replaced, "--strict", *words) == first
    others = {learned_by(replaced, "--auto", "gunicorn", "other:app")}
    monkeypatch.setenv("DATABASE_URL", "postgresql://tenant-b/")
    others.add(learned_by(replaced, *words))
    monkeypatch.setattr("sys.prefix", "/another/environment")
    others.add(learned_by(replaced, *words))
    monkeypatch.chdir(tmp_path)
    others.add(learned_by(replaced, *words))
    assert len(others - {first}) == 4
    assert "tenant" not in " ".join(map(str, others))


def test_the_cache_keeps_the_files_that_were_used_last(
    replaced: Exec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = learned_by(replaced, "--auto", "gunicorn", "app:app")
    for number, path in enumerate([own, *(own.parent / f"{n}.auto" for n in range(99))]):
        path.touch()
        os.utime(path, (number, number))
    assert learned_by(replaced, "--auto", "gunicorn", "app:app") == own
    kept = {path.name for path in own.parent.iterdir()}
    assert own.name in kept and "98.auto" in kept and "0.auto" not in kept
    assert len(kept) == 50


def test_auto_takes_a_file_behind_an_equals_sign_alone(
    replaced: Exec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--warm", "/", "--auto=site.auto", "gunicorn", "app:app")
    assert learned_by(replaced, *words) == tmp_path / "site.auto"
    assert run(["run", "--auto", "site.auto", "gunicorn", "app:app"]) != 0


def test_auto_without_a_cache_says_so_and_the_server_starts(
    replaced: Exec,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pasture").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(["run", "--auto", "gunicorn", "app:app"]) == 0
    assert "PASTURE_AUTO" not in replaced.environ
    assert "auto: nothing is learned: cannot keep anything in" in capsys.readouterr().err
