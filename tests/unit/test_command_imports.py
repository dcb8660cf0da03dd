"""Each command imports what it needs: the list of commands none, `pasture run` no package."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.once

PROGRAM = """
import sys
before = set(sys.modules)
import os
from pasture.cli import main
os.execve = lambda *server: None
main.run(sys.argv[1:])
print(*sorted(set(sys.modules) - before))
"""


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command line imports, without those of the standard library."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = done.stdout.splitlines()[-1].split()
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}


def without_click(names: set[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] != "click"}


def test_the_list_of_commands_imports_none_of_them() -> None:
    found = without_click(imported_by("--help")) - {"pasture_lab", "pasture_lab.command"}
    assert found == {
        *("pasture", "pasture.cli", "pasture.cli.main", "pasture.errors"),
        *("pasture.trust", "pasture.trust.complaint", "pasture.trust.untrusted_text"),
    }


def test_asking_for_the_version_imports_no_command() -> None:
    assert not {name for name in imported_by("--version") if name.startswith("pasture.cli.")} - {
        "pasture.cli.main"
    }


def test_a_server_is_started_by_what_reads_its_settings() -> None:
    found = without_click(imported_by("run", "python", "app.py"))
    rooms = {name.split(".")[1] for name in found if name.startswith("pasture.")}
    assert {name.partition(".")[0] for name in found} == {"pasture"}
    assert rooms <= {
        *("cli", "errors", "trust", "servers", "sealing", "warmup", "refork", "proc"),
        *("interpreter", "_native"),
    }
