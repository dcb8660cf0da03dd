"""Variables for the server of a trial, from the command line and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasture.cli.try_ import _variables
from pasture.errors import UsageError


def test_a_file_has_a_variable_a_line_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# of the site\nTOKEN=a=b c\n\n  MODE=live\nEMPTY=\n")
    assert _variables(["MODE=test"], file) == {"TOKEN": "a=b c", "MODE": "test", "EMPTY": ""}
    assert _variables(["A=1"], None) == {"A": "1"}


@pytest.mark.parametrize("line", ["secret", "=secret"])
def test_a_line_that_is_no_variable_is_named_by_its_number_and_not_shown(
    tmp_path: Path, line: str
) -> None:
    file = tmp_path / "env"
    file.write_text(f"A=1\n{line}\n")
    with pytest.raises(UsageError, match="line 2 of") as raised:
        _variables([], file)
    assert "secret" not in f"{raised.value.message}{raised.value.hint}"
