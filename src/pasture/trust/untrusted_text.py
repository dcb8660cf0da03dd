"""Text that another process chose, errors included: the only module that makes it safe to show.

It may contain escape sequences that a terminal obeys, characters that reverse the direction of a
line, halves of characters that cannot be encoded. Each such character is written out, on one line
of limited length.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from pasture.errors import ERROR, HINT, PastureError

MAX_CHARACTERS = 1000

_NOT_PLAIN = re.compile(r"[^\x00-\x7e]")


def printable(text: str, most: int = MAX_CHARACTERS) -> str:
    """A text as one line without control, format, surrogate or unassigned characters.

    Each of these is written as in Python source (`\\x1b`, `\\u202e`); blanks other than the
    plain one too. "..." replaces characters beyond `most`.
    """
    cut = text if len(text) <= most else text[:most] + "..."
    return cut if cut.isprintable() else "".join(map(_shown, cut))


def printable_lines(text: str, most: int = 100 * MAX_CHARACTERS) -> str:
    """As `printable`, for text whose lines are kept, as the end of a log; tabs become blanks."""
    lines = text[:most].expandtabs(4).split("\n")
    return "\n".join(printable(line, most) for line in lines)


def to_json(document: Any) -> str:
    """A document as JSON in plain ASCII and a line feed; halves of characters become U+FFFD."""
    return _NOT_PLAIN.sub(_in_json, json.dumps(document, indent=1, ensure_ascii=False)) + "\n"


def _shown(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def _in_json(found: re.Match[str]) -> str:
    is_half = "\ud800" <= found[0] <= "\udfff"
    return "\\ufffd" if is_half else json.dumps(found[0])[1:-1]


def complain(error: PastureError) -> int:
    """Write what happened and what to do about it to stderr; return the exit code."""
    hint = f"{HINT}{printable_lines(error.hint)}\n" if error.hint else ""
    sys.stderr.write(f"{ERROR}{printable_lines(error.message)}\n{hint}")
    sys.stderr.flush()
    return error.exit_code
