"""Cookies of one simulated user, by the standard library's rules.

A load without cookies imports nothing for them: the rules take longer to import than the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import Message
    from http.cookiejar import CookieJar


class Cookies:
    """The cookies that a user was given and has not lost since."""

    __slots__ = ("_jar", "_lines")

    def __init__(self) -> None:
        self._jar: CookieJar | None = None
        self._lines: dict[str, bytes] = {}  # by URL, until the next cookie comes

    def take(self, url: str, values: Sequence[str]) -> None:
        """Take the values of `Set-Cookie` from the answer of a URL."""
        from email.message import Message
        from http.cookiejar import CookieJar
        from urllib.request import Request

        head = Message()
        for value in values:
            head["Set-Cookie"] = value
        if self._jar is None:
            self._jar = CookieJar()
        self._jar.extract_cookies(_Head(head), Request(url))  # type: ignore[arg-type]
        self._lines.clear()

    def line_for(self, url: str) -> bytes:
        """The line of a request's head, b"" without a cookie for that URL."""
        if self._jar is None:
            return b""
        line = self._lines.get(url)
        if line is None:
            from urllib.request import Request

            request = Request(url)
            self._jar.add_cookie_header(request)
            cookie = request.get_header("Cookie")
            line = f"Cookie: {cookie}\r\n".encode("latin-1", "replace") if cookie else b""
            self._lines[url] = line
        return line


class _Head:
    """As much of an answer as the rules read."""

    def __init__(self, head: Message) -> None:
        self._head = head

    def info(self) -> Message:
        return self._head
