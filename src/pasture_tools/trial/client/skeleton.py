"""The structure of a response's body, without the values that change from answer to answer.

CSRF tokens, nonces, dates and ids differ in two answers of one page; its structure does not. The
structure of HTML and XML is the sequence of tags with the names of their attributes, that of JSON
the keys and types, that of anything else the content type and whether there is a body. Pure.

The standard library only, and nothing of pasture: the load generator runs in an interpreter that
may lack pasture.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

LIMIT_BYTES = 2 * 2**20
"""A longer body counts by its content type alone."""

_NAME = re.compile(rb"</?[A-Za-z][^\s/<>\"']*")
_MARK = re.compile(rb"[>\"']")
_END_OF = {name: re.compile(rb"</%s\s*>" % name, re.IGNORECASE) for name in (b"script", b"style")}
_ATTRIBUTE = re.compile(rb"([^\s\"'>/=]+)(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'>]+))?")
_NUMBERED_KEY = re.compile(r"\d+|[0-9A-Fa-f]{8}[0-9A-Fa-f-]*")
_END = ord(">")
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
    """Each tag with the names of its attributes.

    Takes time in proportion to the body, whatever it is: no byte is looked at again because a
    comment, a quote or a script has no end.
    """
    marks, ends = _ends_of_tags(body)
    endless: set[bytes] = set()
    at = 0
    while (begin := body.find(b"<", at)) >= 0:
        if body.startswith(b"<!--", begin):
            end = body.find(b"-->", begin + 4)
            at = end if end >= 0 else len(body)
            continue
        at = begin + 1
        name = _NAME.match(body, begin)
        mark = bisect_left(marks, name.end()) if name is not None else len(marks)
        if name is None or mark == len(marks) or ends[mark] < 0:
            continue
        at = ends[mark] + 1
        yield b" ".join((name[0][1:], *_ATTRIBUTE.findall(body, name.end(), at - 1))).lower()
        inner = name[0][1:].lower()
        if inner in _END_OF and inner not in endless:
            end_of = _END_OF[inner].search(body, at)
            at = end_of.end() if end_of is not None else at
            endless |= {inner} if end_of is None else set()


def _ends_of_tags(body: bytes) -> tuple[list[int], list[int]]:
    """Places of all marks that count in a tag, and for each the end of a tag that goes on with it.
    -1 stands for a quote that is not closed.

    The marks are read from the last to the first: the end after a closing quote is known by then.
    """
    marks = [found.start() for found in _MARK.finditer(body)]
    ends = [-1] * (len(marks) + 1)
    closing: dict[int, int] = {}
    for i in reversed(range(len(marks))):
        mark = body[marks[i]]
        if mark == _END:
            ends[i] = marks[i]
            continue
        ends[i] = ends[closing[mark] + 1] if mark in closing else -1
        closing[mark] = i
    return marks, ends


def _of_json(body: bytes) -> str:
    try:
        shape = json.dumps(_shape(json.loads(body)))
    except (ValueError, RecursionError):
        return "which cannot be parsed"
    return f"{shape[:40]}{'...' if len(shape) > 40 else ''} ({_digest(shape.encode())})"


def _shape(value: Any) -> Any:
    """Keys and types of a JSON value. Elements of a list count once for each shape."""
    if isinstance(value, dict):
        # Ids that serve as keys are values.
        of_keys = {"#" if _NUMBERED_KEY.fullmatch(k) else k: _shape(of) for k, of in value.items()}
        return {key: of_keys[key] for key in sorted(of_keys)}
    if isinstance(value, list):
        shapes = {json.dumps(_shape(element)) for element in value}
        return [json.loads(shape) for shape in sorted(shapes)]
    if value is None or isinstance(value, bool):
        return "null" if value is None else "bool"
    return "text" if isinstance(value, str) else "number"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=5).hexdigest()
