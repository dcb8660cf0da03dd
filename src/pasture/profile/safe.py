"""Which requests may be in a profile: a file that people read, and that a repository keeps.

A path or a query may carry a secret: a link to set a new password, an invitation, a search. No
header but `Host` and no body is kept by anyone. These are the rules for the rest:

- Only GET and HEAD, answered in the 200s or 300s, at least twice by the same worker: one-time links
  are used once (`pasture.refork.served`).
- The value of a query's parameter is kept where it is a number of four digits at most, or empty;
  else the name alone is.
- A request is dropped if a part of its path could be a token, a number of a person, or an address:
  24 characters and more with a digit, 8 and more of letters and digits that are no words, six
  digits and more, anything with `@`, `=` or an encoded character.
- A host that is an address, or this machine, is left out, as is a port.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"(GET|HEAD) http://([^/]*)(/[^?#]*)(?:\?([^#]*))?")
_PLAIN_VALUE = re.compile(r"\d{0,4}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,40}")
_MAX_PART = 60
_MAX_WITH_DIGIT = 23
_DIGITS = re.compile(r"\d{6}")
_ODD = re.compile(r"[^A-Za-z0-9._~+,;:!$()*'-]")
_MIXED = re.compile(r"(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{8,}", re.IGNORECASE)
_CASES = re.compile(r"[a-z][A-Z]\w*[a-z][A-Z]\w*[a-z][A-Z]|[A-Z]{6}")
_BETWEEN_WORDS = re.compile(r"[-._~+]")
_ADDRESS = re.compile(r"[\d.]+|\[.*\]|localhost|[^.]*", re.IGNORECASE)


def without_secrets(line: str) -> str | None:
    """A line of `Served`, as a profile may have it; None if it may not."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    method, host, path, query = found.groups()
    if any(map(_may_be_secret, path.split("/"))):
        return None
    parts = [_parameter(part) for part in query.split("&") if part] if query else []
    if None in parts:
        return None
    name = host if host.startswith("[") else host.partition(":")[0]
    place = "" if _ADDRESS.fullmatch(name) else f"http://{name}"
    return f"{method} {place}{path}" + (f"?{'&'.join(filter(None, parts))}" if parts else "")


def _may_be_secret(part: str) -> bool:
    has_digit = any(character.isdigit() for character in part)
    return (
        len(part) > (_MAX_WITH_DIGIT if has_digit else _MAX_PART)
        or _ODD.search(part) is not None
        or _DIGITS.search(part) is not None
        or any(map(_MIXED.fullmatch, _BETWEEN_WORDS.split(part)))
        or _CASES.search(part) is not None
    )


def may_lack_values(request: str) -> bool:
    """Whether a request of a profile has a parameter without a value."""
    _, _, query = request.partition("?")
    return any(part.endswith("=") for part in query.split("&"))


def _parameter(part: str) -> str | None:
    """A parameter without a value that may be a secret; None where its name may be one."""
    name, equals, value = part.partition("=")
    if not _NAME.fullmatch(name) or _may_be_secret(name):
        return None
    return f"{name}{equals}{value if _PLAIN_VALUE.fullmatch(value) else ''}"
