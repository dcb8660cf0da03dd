"""The structure of a response's body, without the values that change from answer to answer.

CSRF tokens, nonces, dates and ids differ in two answers of one page; its structure does not. Of
HTML and XML that is the sequence of tags with the names of their attributes, of JSON the keys and
types, of anything else the content type and whether there is a body. Pure.

The standard library only, and nothing of pasture: the load generator of `pasture try` loads this
file into an interpreter that may lack pasture.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

LIMIT_BYTES = 2 * 2**20
"""Of a longer body only the content type counts."""

_COMMENT_OR_TAG = re.compile(
    rb"<!--.*?(?:-->|\Z)"
    rb"|<(script|style)\b((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>.*?</\1\s*>"
    rb"|<(/?[A-Za-z][^\s/>]*)((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>",
    re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(rb"([^\s\"'>/=]+)(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'>]+))?")
_NUMBERED_KEY = re.compile(r"\d+|[0-9A-Fa-f]{8}[0-9A-Fa-f-]*")
_MARKUP = ("text/html", "text/xml", "application/xml")


def skeleton(content_type: str, body: bytes, encoding: str = "") -> str:
    """The structure of a body in a few words, which are equal where the structures are.

    Args:
        encoding: value of `Content-Encoding`: an encoded body is not looked into.
    """
    media_type = content_type.partition(";")[0].strip().lower() or "no content type"
    if not body:
        return f"{media_type}, empty"
    if len(body) > LIMIT_BYTES or encoding.strip().lower() not in ("", "identity"):
        return media_type
    if media_type in _MARKUP or media_type.endswith("+xml"):
        tags = list(_tags(body))
        number = f"{len(tags)} tag{'' if len(tags) == 1 else 's'}"
        return f"{media_type}, {number} ({_digest(b'>'.join(tags))})"
    if media_type == "application/json" or media_type.endswith("+json"):
        return f"{media_type}, {_of_json(body)}"
    return media_type


def _tags(body: bytes) -> Iterable[bytes]:
    for found in _COMMENT_OR_TAG.finditer(body):
        tag, attributes = found[1] or found[3], found[2] or found[4] or b""
        if tag:
            names = _ATTRIBUTE.findall(attributes)
            yield b" ".join((tag, *names)).lower()


def _of_json(body: bytes) -> str:
    try:
        shape = json.dumps(_shape(json.loads(body)))
    except (ValueError, RecursionError):
        return "which cannot be parsed"
    return f"{shape[:40]}{'...' if len(shape) > 40 else ''} ({_digest(shape.encode())})"


def _shape(value: Any) -> Any:
    """Keys and types. Elements of a list count once for each shape, in whatever number."""
    if isinstance(value, dict):
        of_keys = {_key(key): _shape(of) for key, of in value.items()}
        return {key: of_keys[key] for key in sorted(of_keys)}
    if isinstance(value, list):
        shapes = {json.dumps(_shape(element)) for element in value}
        return [json.loads(shape) for shape in sorted(shapes)]
    if value is None or isinstance(value, bool):
        return "null" if value is None else "bool"
    return "text" if isinstance(value, str) else "number"


def _key(name: str) -> str:
    """Ids that serve as keys are values."""
    return "#" if _NUMBERED_KEY.fullmatch(name) else name


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=5).hexdigest()
