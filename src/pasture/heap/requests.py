"""The requests of a warm-up, and the lines in which users write them.

`PATH`, `METHOD PATH`, either with a full URL instead of the path, whose host is then sent
as the `Host` header; `Name: value` is a header for every request; `#` starts a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pasture.errors import UsageError

Header = tuple[str, str]

# A token (RFC 9110, section 5.6.2); white space must follow, so that no URL is a header.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(?:\s+(.*))?")
_METHOD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a warm-up.

    Attributes:
        method: in capitals.
        path: with the query, still percent-encoded.
        scheme: "http" or "https".
        host: for the `Host` header; None leaves the choice to the server.
    """

    method: str
    path: str
    scheme: str = "http"
    host: str | None = None

    def __str__(self) -> str:
        place = f"{self.scheme}://{self.host}" if self.host else ""
        return f"{self.method} {place}{self.path}"


@dataclass(frozen=True, slots=True)
class Requests:
    """What to serve before the fork: requests, and the headers that all of them carry."""

    requests: tuple[Request, ...] = ()
    headers: tuple[Header, ...] = ()

    def __add__(self, other: Requests) -> Requests:
        return Requests(self.requests + other.requests, self.headers + other.headers)

    def __bool__(self) -> bool:
        return bool(self.requests)


def parse_request(line: str) -> Request:
    """Read `PATH`, `METHOD PATH` or either with a URL.

    Raises:
        UsageError: it is neither.
    """
    words = line.split()
    if not 1 <= len(words) <= 2 or (len(words) == 2 and not _METHOD.fullmatch(words[0])):
        raise _not_a_request(line)
    method = words[0].upper() if len(words) == 2 else "GET"
    if words[-1].startswith("/"):
        return Request(method, words[-1])
    url = urlsplit(words[-1])
    if url.scheme not in ("http", "https") or not url.netloc:
        raise _not_a_request(line)
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    return Request(method, path, url.scheme, url.netloc)


def parse_header(line: str) -> Header:
    """Read `Name: value`.

    Raises:
        UsageError: it is not of that form.
    """
    match = _HEADER.fullmatch(line.strip())
    if match is None:
        raise UsageError(f"not a header: {line!r}", hint="write it as 'Name: value'")
    return match[1], (match[2] or "").strip()


def parse_lines(lines: Iterable[str]) -> Requests:
    """Read requests and headers, one a line, in any order.

    Raises:
        UsageError: a line is neither.
    """
    found = Requests()
    for line in map(str.strip, lines):
        if not line or line.startswith("#"):
            continue
        if _HEADER.fullmatch(line):
            found += Requests(headers=(parse_header(line),))
        else:
            found += Requests(requests=(parse_request(line),))
    return found


def read_requests(path: Path) -> Requests:
    """Read a file of such lines.

    Raises:
        UsageError: it cannot be read, or a line is neither request nor header.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint="check the file's name") from None
    return parse_lines(text.splitlines())


def _not_a_request(line: str) -> UsageError:
    return UsageError(
        f"not a request: {line!r}", hint="write PATH or METHOD PATH, as in GET /shop/?page=2"
    )
