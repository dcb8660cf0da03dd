"""Variables for the server of a trial, and the file of its warm-up, as a user gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pasture.cli.try_ import _plan, _variables
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"urls_file": "urls"}, "urls"),
        ({"warm_file": "warm"}, "warm"),
        (
            {"urls_file": "urls", "warm_file": "plain"},
            None,
        ),  # the headers of the load are not in it
        ({"urls_file": "plain", "warm_file": "warm"}, "warm"),
        ({"urls_file": "urls", "urls": ("/more",)}, None),
        ({"urls_file": "urls", "headers": ("Cookie: a=1",)}, None),
        ({"warm_file": "warm", "headers_file": "headers"}, None),
    ],
)
def test_a_file_of_the_users_is_named_if_it_has_all_of_the_warm_up(
    tmp_path: Path, given: dict[str, Any], expected: str | None
) -> None:
    for name, lines in {
        "urls": "/a\nCookie: b=1\n",
        "plain": "/b\n",
        "warm": "/c\n",
        "headers": "A: b\n",
    }.items():
        (tmp_path / name).write_text(lines)
    nothing: dict[str, Any] = {
        **dict.fromkeys(("policies", "urls", "headers", "warm", "environment"), ()),
        **dict.fromkeys(("urls_file", "headers_file", "warm_file", "env_file")),
        **dict.fromkeys(("run_timeout", "bind", "limit", "locustfile")),
        **{"app": "a:b", "server_timeout": 1.0},
    }
    files = {name: tmp_path / raw for name, raw in given.items() if name.endswith("_file")}
    plan = _plan(**nothing | given | files)
    assert plan.warm_file == (None if expected is None else tmp_path / expected)
