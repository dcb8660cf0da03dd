"""The interpreter that images are for, and options of it as a command line gives them."""

from __future__ import annotations

import getopt
import shlex
import sys
from pathlib import Path

from pasture.errors import UsageError

_OPTIONS = "bBdEIOPqRsSuvxW:X:"


def python() -> str:
    """The interpreter next to this program. src/stub/interpreter.c finds it in the same way."""
    folder = Path(sys.executable).parent.resolve()
    found = (folder / name for name in ("python", "python3"))
    return str(next((path for path in found if path.exists()), Path(sys.executable)))


def split_options(options: str) -> list[str]:
    """Options one by one, as the stub splits them: `-uX dev` is `-u`, `-X`, `dev`.

    Raises:
        UsageError: an image cannot be for one of them.
    """
    try:
        found, rest = getopt.getopt(shlex.split(options), _OPTIONS)
    except (ValueError, getopt.GetoptError) as error:
        raise UsageError(f"--options makes no sense: {error}") from None
    if rest:
        raise UsageError(f"{rest[0]} is no option of one letter", hint="as in --options='-O'")
    return [word for pair in found for word in pair if word]
