"""The requests of a warm-up, and the lines that users write for them.

`PATH`, `METHOD PATH`, either with a full URL instead of the path, whose host is then sent
as the `Host` header; `Name: value` is a header for every request; `#` starts a comment.

A line takes what a browser's address bar does: characters outside of ASCII are percent-encoded as
UTF-8, and those of a host name by IDNA. A `Request` has what goes over the wire, all of it ASCII.

Source: RFC 3987, section 3.1 (IRI to URI); RFC 9110, sections 5.5 and 7.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from pasture.errors import UsageError

Header = tuple[str, str]

USER_AGENT = "pasture-warm-up"
"""The user agent of a warm-up, unless a header says otherwise."""

# A token (RFC 9110, section 5.6.2); white space must follow, so that no URL is a header.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(?:\s(.*))?")
_METHOD = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MAY_STAND = "/?:@!$&'()*+,;=-._~%"  # RFC 3986: pchar, and the additional characters of a query
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a warm-up."""

    method: str  # in capitals
    path: str  # path and query, percent-encoded, ASCII
    scheme: str = "http"  # "http" or "https"
    host: str | None = None  # value of the `Host` header; None leaves the choice to the server

    def __str__(self) -> str:
        place = f"{self.scheme}://{self.host}" if self.host else ""
        return f"{self.method} {place}{self.path}"


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to serve before the fork, and the headers that all of them carry."""

    requests: tuple[Request, ...] = ()
    headers: tuple[Header, ...] = ()

    def __add__(self, other: Requests) -> Requests:
        return Requests(self.requests + other.requests, self.headers + other.headers)

    def __bool__(self) -> bool:
        return bool(self.requests)


def parse_request(line: str) -> Request:
    """Read `PATH`, `METHOD PATH` or either with a URL; UsageError if it is neither."""
    words = line.split()
    if not 1 <= len(words) <= 2 or (len(words) == 2 and not _METHOD.fullmatch(words[0])):
        raise _not_a_request(line)
    method = words[0].upper() if len(words) == 2 else "GET"
    if any(ord(character) < 32 or character == "\x7f" for character in words[-1]):
        raise _not_a_request(line)
    try:
        scheme, host, path = _parts(words[-1])
        return Request(method, _encoded(path), scheme, host)
    except ValueError:
        raise _not_a_request(line) from None


def _parts(place: str) -> tuple[str, str | None, str]:
    """Scheme, host and path of a URL or of a path alone; ValueError if it is neither."""
    if place.startswith("/"):
        return "http", None, place
    url = urlsplit(place)
    if url.scheme not in ("http", "https") or "@" in url.netloc:
        raise ValueError(place)
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    return url.scheme, _host(url.hostname or "", url.port), path


def _encoded(path: str) -> str:
    """Path and query as they are sent; encoded parts do not change."""
    whole, _, _ = path.partition("#")  # a fragment is never sent
    return quote(_LONE_PERCENT.sub("%25", whole), safe=_MAY_STAND, errors="surrogateescape")


def _host(name: str, port: int | None) -> str:
    """Name and port for the `Host` header; ValueError for an impossible name."""
    shown = f"[{name}]" if ":" in name else name.encode("idna").decode("ascii")
    if not _HOST.fullmatch(shown):
        raise ValueError(name)
    return shown if port is None else f"{shown}:{port}"


def parse_header(line: str) -> Header:
    """Read `Name: value`; UsageError if it is not a header, or its value cannot be sent."""
    match = _HEADER.fullmatch(line.strip(" \t\r\n"))
    if match is None:
        raise UsageError(f"not a header: {line!r}", hint="write it as 'Name: value'")
    value = (match[2] or "").strip()
    if not _VALUE.fullmatch(value):
        raise UsageError(
            f"the header {match[1]} has characters that a header must not have: {value!r}",
            hint="ASCII without control characters can be sent; encode the rest as the "
            "application expects it, percent-encoded for instance",
        )
    return match[1], value


def parse_lines(lines: Iterable[str]) -> Requests:
    """Read requests and headers, one a line, in any order; UsageError if a line is neither."""
    found = Requests()
    for line in map(str.strip, lines):
        if line and not line.startswith("#"):
            found += parse_line(line)
    return found


def parse_line(line: str) -> Requests:
    """Read a request or a header; UsageError if it is neither."""
    if _HEADER.fullmatch(line):
        return Requests(headers=(parse_header(line),))
    return Requests(requests=(parse_request(line),))


def read_requests(path: Path) -> Requests:
    """Read a file of requests and headers; UsageError as in `read_lines` and `parse_lines`."""
    return parse_lines(read_lines(path))


def read_lines(path: Path) -> list[str]:
    """Lines of a user's file; UsageError if it cannot be read, is too large, or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="check the file's name; its text is UTF-8"
        ) from None
    return text.split("\n")


def _not_a_request(line: str) -> UsageError:
    return UsageError(
        f"not a request: {line!r}", hint="write PATH or METHOD PATH, as in GET /shop/?page=2"
    )
