"""Words that the processes of a server may send to it: each once, with the types of its values.

Pure. The arbiter checks which process may send which word when.
"""

from __future__ import annotations

from typing import Any

from pasture.refork.channel import MAX_TEXT, Vocabulary
from pasture.refork.served import MAX_LINES, is_line


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_requests(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_LINES and all(map(is_line, value))


FROM_CHILDREN: Vocabulary = {
    "loaded": {},
    "spawned": {},
    "not spawned": {"why": _is_text, "for_now": _is_flag},
    "sealed": {"report": _is_text, "served": _are_requests},
    "refused": {"why": _is_text},
}
"""`loaded` comes from the first mold; `spawned` from a new worker, whose pid the kernel adds; the
others from a mold."""
