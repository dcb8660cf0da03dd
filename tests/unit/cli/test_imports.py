"""Each command imports what it needs: the list of commands none, `pasture run` no package."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.once

PACKAGES = ("click", "jinja2", "numpy", "plotly", "prometheus_client", "psutil", "rich", "textual")
OURS = ("pasture", "pasture_tools")


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command line imports, without those of the standard library."""
    command = [sys.executable, "-m", "pasture", *arguments]
    environ = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    names = {line.rpartition("|")[2].strip() for line in lines}
    return {name for name in names if name.partition(".")[0] in (*PACKAGES, *OURS)}


def without_click(names: set[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] != "click"}


def test_the_list_of_commands_imports_none_of_them() -> None:
    found = without_click(imported_by("--help"))
    assert found - {"pasture_tools", "pasture_tools.__main__"} == {
        *("pasture", "pasture_tools.cli", "pasture_tools.cli.main", "pasture.errors"),
        *("pasture.trust", "pasture.trust.untrusted_text"),
        *(
            "pasture_tools.display",
            "pasture_tools.display.sections",
        ),
    }


def test_asking_for_the_version_imports_no_command() -> None:
    assert not {
        name for name in imported_by("--version") if name.startswith("pasture_tools.cli.")
    } - {"pasture_tools.cli.main"}


OF_RUN = frozenset(
    ("__main__", "cli", "display", "errors", "off", "reasons", "servers", "serving", "trust")
)
OF_RUN |= {"user_cache"}


def test_a_server_is_started_without_the_rooms_that_read_values() -> None:
    found = without_click(imported_by("run", "no-such-server"))
    assert {name.partition(".")[0] for name in found} <= set(OURS)
    assert "pasture.serving.settings" in found
    assert {name.split(".")[1] for name in found if "." in name} <= OF_RUN


def test_a_value_that_is_given_is_read_by_its_room() -> None:
    found = imported_by("run", "--max-uss", "200M", "python", "app.py")  # refused
    rooms = {name.split(".")[1] for name in without_click(found) if "." in name}
    assert rooms - OF_RUN == {"proc", "sizing"}


def test_a_program_has_the_library_from_its_import_on() -> None:
    program = "import sys, pasture; print('pasture.sealing.seal' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n"
