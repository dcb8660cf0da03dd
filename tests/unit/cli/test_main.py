"""The commands: their order, those that other packages bring, and what a broken one does."""

import errno
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pasture import errors
from pasture.errors import MissingExtra, PastureError, UsageError
from pasture_tools.cli import main, top

IN_ORDER = [
    "try",
    "size",
    "run",
    "image",
    "top",
    "explain",
    "doctor",
    "metrics",
]


def bring(folder: Path, entry_points: str) -> dict[str, str]:
    """Make an installed package that has these entry points; the environment that sees it."""
    info = folder / "visitor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: visitor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pasture.commands]\n{entry_points}\n")
    (folder / "visitor.py").write_text(
        "import click\n\n@click.command()\ndef hello():\n    '''Say hello.'''\n    print('hello')\n"
    )
    return {"PYTHONPATH": str(folder)}


def pasture(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pasture", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def names_in(text: str) -> list[str]:
    """Names of commands, which are indented by two below the headings."""
    lines = text.partition("Measure first:\n")[2].partition("\n  Start with")[0].splitlines()
    return [line.split()[0] for line in lines if line.startswith("  ") and line[2:3].strip()]


@pytest.mark.once
def test_help_lists_the_commands_in_the_order_of_use_and_those_of_others_last(
    tmp_path: Path,
) -> None:
    done = pasture(bring(tmp_path, "aaa = visitor:hello"), "--help")
    assert done.returncode == 0
    assert names_in(done.stdout)[: len(IN_ORDER) + 1] == [*IN_ORDER, "aaa"]
    assert "Say hello." in done.stdout


@pytest.mark.once
def test_a_command_of_another_package_is_called(tmp_path: Path) -> None:
    done = pasture(bring(tmp_path, "greet = visitor:hello"), "greet")
    assert (done.returncode, done.stdout) == (0, "hello\n")


@pytest.mark.once
def test_a_command_of_another_package_takes_the_place_of_none_of_ours(tmp_path: Path) -> None:
    env = bring(tmp_path, "size = visitor:hello")
    done = pasture(env, "size", "--cores", "2")
    assert (done.returncode, done.stdout) == (0, "4\n")
    assert names_in(pasture(env, "--help").stdout).count("size") == 1


BROKEN = {
    "no_such_module:command": "ModuleNotFoundError: No module named 'no_such_module'",
    "visitor:no_such_name": "AttributeError",
    "visitor:click": "visitor:click is not a click command",
    "visitor:hello.params": "visitor:hello.params is not a click command",
}


@pytest.mark.once
def test_a_broken_entry_point_is_an_error_of_its_command_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    names = {f"odd{number}": value for number, value in enumerate(BROKEN)}
    env = bring(tmp_path, "\n".join(f"{name} = {value}" for name, value in names.items()))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "visitor", None)  # what is imported here is gone afterwards
    del sys.modules["visitor"]
    for name, value in names.items():
        for arguments in ((), ("run", "--all"), ("--help",)):
            assert main.run([name, *arguments]) == 1
            said = capfd.readouterr().err
            assert said.startswith(f"error: pasture {name} cannot be loaded: ")
            assert BROKEN[value] in said and "hint: the package visitor brings it" in said
    help_ = pasture(env, "--help")
    assert help_.returncode == 0 and names_in(help_.stdout)[: len(IN_ORDER)] == IN_ORDER


@pytest.mark.once
def test_a_command_whose_import_ends_the_process_does_not_end_pasture(tmp_path: Path) -> None:
    env = bring(tmp_path, "odd = leaver:command")
    (tmp_path / "leaver.py").write_text("import sys\nsys.exit(9)\n")
    assert pasture(env, "--help").returncode == 0
    done = pasture(env, "odd")
    assert done.returncode == 1 and "SystemExit: 9" in done.stderr


@pytest.mark.once
@pytest.mark.parametrize(("name", "extra"), [("lab", "lab"), ("image", "image")])
def test_a_command_that_is_not_installed_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    nothing = importlib.metadata.EntryPoints()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: nothing)
    with pytest.raises(MissingExtra) as raised:
        main.cli.get_command(click.Context(main.cli), name)
    assert raised.value.hint == f"pip install 'pasture[{extra}]'"
    assert isinstance(raised.value, PastureError)
    assert name not in main.cli.list_commands(click.Context(main.cli))


@pytest.mark.once
def test_metrics_without_its_extra_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('it is not there')\n")
    done = pasture({"PYTHONPATH": str(tmp_path)}, "metrics", str(os.getpid()))
    assert done.returncode == MissingExtra.exit_code
    assert "hint: pip install 'pasture[metrics]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.once
def test_help_names_the_page_of_a_command_once_there_is_a_documentation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["top", "--help"]) == 0
    assert "docs/" not in capsys.readouterr().out
    monkeypatch.setattr(errors, "DOCS_URL", "https://pasture.example/1.0")
    monkeypatch.setattr(top.command, "epilog", None)  # put back afterwards
    assert main.run(["top", "--help"]) == 0
    assert "https://pasture.example/1.0/docs/diagnose.html" in capsys.readouterr().out
    docs = Path(__file__).resolve().parents[3] / "docs"
    assert all((docs / f"{main._PAGES.get(name, name)}.md").exists() for name in main.COMMANDS)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OSError(errno.EMFILE, "x"), "ulimit -n"),
        (MemoryError(), "other programs"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (OSError(errno.EIO, "x"), "cannot read or write"),
        (OSError(errno.ENOSPC, "x"), "make room"),
        (OSError(errno.EACCES, "x", "/dev/null"), "cannot use /dev/null"),
    ],
)
def test_what_the_system_refuses_a_command_says_in_words(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Exception,
    hint: str,
) -> None:
    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", refuse)
    assert main.run([]) in (PastureError.exit_code, UsageError.exit_code)
    assert hint in capfd.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(errno.ENOSPC, 2, "cannot write: "), (errno.ENOSYS, 1, "function not implemented\nhint: ")],
)
def test_a_call_that_fails_is_said_where_no_file_can_be_opened_either(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    code: int,
    said: str,
) -> None:
    def fails(**_: object) -> None:
        monkeypatch.setattr(os, "open", refuses)
        raise OSError(number, os.strerror(number))

    def refuses(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(main.cli, "main", fails)
    assert main.run([]) == code
    assert capsys.readouterr().err.startswith(f"error: {said}")


@pytest.mark.parametrize(
    ("words", "same"), [(["help"], ["--help"]), (["help", "top"], ["top", "--help"])]
)
def test_help_is_a_word_as_well(
    words: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == 0
    found = capsys.readouterr().out
    assert main.run(same) == 0
    assert found == capsys.readouterr().out != ""


def test_the_version_has_a_short_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["-V"]) == 0
    found = capsys.readouterr().out
    assert main.run(["--version"]) == 0
    assert found == capsys.readouterr().out != ""
