"""The interpreter that images are for, and options of it as a command line gives them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from pasture.errors import UsageError

_LETTERS = "bBdEIOPqRsSuvxWX"
_WITH_ARGUMENT = "WX"


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
        words = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"--options makes no sense: {error}") from None
    found: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or len(word) < 2 or word.startswith("--"):
            raise UsageError(f"{word} is no option of one letter", hint="as in --options='-O'")
        for at, letter in enumerate(word[1:], 2):
            if letter not in _LETTERS:
                raise UsageError(f"no image can be made with -{letter}")
            found.append(f"-{letter}")
            if letter in _WITH_ARGUMENT:
                if not word[at:] and not words:
                    raise UsageError(f"-{letter} needs an argument")
                found.append(word[at:] or words.pop(0))
                break
    return found
