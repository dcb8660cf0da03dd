"""Requests that workers have answered, for a profile.

Keeps GET and HEAD requests answered at least twice, by path, query and Host. A request seen once is
dropped: one-time links carry secrets. No other header is kept.

Not shared between threads under a lock: a count that is lost does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

MAX_LINES = 50

_MAX_KINDS = 500
_MAX_CHARACTERS = 200  # so that all lines fit into one message
_SAFE = ("GET", "HEAD")
_IN_PATHS = "/!$&'()*+,;=:@~"  # RFC 3986, `pchar`
_PATH = re.compile(r"/[!-~]*")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")


class Served:
    """Counts of the requests that one line of workers has answered."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, method: str, path: str, host: str, status: int) -> None:
        """Count one answer; the path has its query, as it came over the wire."""
        if method not in _SAFE or not 200 <= status < 400:
            return
        line = f"{method} http://{host}{path}"
        count = self._counts.get(line)
        if count is not None:
            self._counts[line] = count + 1
        elif len(self._counts) < _MAX_KINDS and _can_be_sent_again(path, host, line):
            self._counts[line] = 1

    def lines(self, most: int = MAX_LINES) -> list[str]:
        """The most frequent ones first, as lines of a warm-up."""
        again = [(count, line) for line, count in list(self._counts.items()) if count > 1]
        return [line for _, line in sorted(again, key=lambda pair: -pair[0])[:most]]


def _can_be_sent_again(path: str, host: str, line: str) -> bool:
    return (
        len(line) <= _MAX_CHARACTERS
        and _PATH.fullmatch(path) is not None
        and _HOST.fullmatch(host) is not None
    )


def host_of(headers: Iterable[tuple[str, str]]) -> str:
    """The `Host` header of a request; "" if it has none."""
    return next((value for name, value in headers if name.upper() == "HOST"), "")


def words_of(scope: Any) -> tuple[str, str, str]:
    """Method, path with its query, and `Host` of a request by its scope (ASGI)."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    query = scope.get("query_string") or b""
    target = (scope.get("raw_path") or scope["path"].encode()) + (query and b"?" + query)
    return scope["method"], target.decode("latin-1"), host.decode("latin-1")


def words_of_environ(environ: Mapping[str, Any]) -> tuple[str, str, str]:
    """The same by its environ (WSGI); a path that no server kept as it came is encoded again."""
    target = environ.get("REQUEST_URI") or environ.get("RAW_URI")
    if not target:
        path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
        query = environ.get("QUERY_STRING")
        # An application may have put a character there that no server would.
        target = quote(path, safe=_IN_PATHS, encoding="latin-1", errors="replace")
        target += f"?{query}" if query else ""
    return environ.get("REQUEST_METHOD", ""), target, environ.get("HTTP_HOST", "")
