"""`--json` of all commands that print a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def json_option(what: str) -> Callable[[Decorated], Decorated]:
    """The option, as the argument `json_file`; `what` says what is written."""
    return click.option(
        "--json",
        "json_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Write {what} as JSON; - is standard output, in place of the table.",
    )
