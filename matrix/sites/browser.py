"""What a session does, and the outcome, step by step.

A step is one request, or one other act with a result. Its record holds what is compared: status,
place of a redirect, type and masked text of the body.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import requests

TIMEOUT_S = 60.0
_MAX_BODY = 200_000
_USERS = 4

_MASKS = (
    (
        re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
        "U",
    ),
    (re.compile(r"\b[A-Za-z]{3,9} \d{1,2},? \d{4}\b|\b\d{1,2} [A-Za-z]{3,9} \d{4}\b"), "D"),
    (re.compile(r"\b(?=[A-Za-z_-]*\d)[A-Za-z0-9+/_=.:-]{16,}"), "T"),
    (re.compile(r"\b[A-Za-z0-9]{32,}\b"), "T"),
    (re.compile(r"\b[A-Za-z]\w{0,3}-?[0-9a-f]{6,}\b"), "X"),
    (
        re.compile(r"\b(a moment|\d+ (second|minute)s?|(less than )?an? (second|minute)) ago\b"),
        "ago",
    ),
    (re.compile(r"\d+(\.\d+)?"), "0"),
)
"""What differs from run to run: identifiers, dates, tokens, hashes, numbers."""


@dataclass(frozen=True, slots=True)
class Step:
    """One act of a session.

    Attributes:
        name: method and path, numbered where they come again.
        status: of HTTP; 0 for none.
        text: what is compared besides the status, masked.
    """

    name: str
    status: int
    text: str


class Browser:
    """A user of the site: cookies are kept, redirects are not followed unless asked.

    Attributes:
        base: where the site is, without a slash at the end.
        round: 1 before the server was reloaded, 2 after it.
        variables: of the site's services.
    """

    def __init__(self, base: str, round_: int, variables: Mapping[str, str]) -> None:
        self.base = base
        self.round = round_
        self.variables = variables
        self.http = requests.Session()
        self.steps: list[Step] = []
        self._names: Counter[str] = Counter()

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """One request, which becomes a step. A connection that breaks is one with status 0."""
        options.setdefault("allow_redirects", False)
        try:
            answer = self.http.request(method, self.base + path, timeout=TIMEOUT_S, **options)
        except requests.RequestException as error:
            self.note(f"{method} {path}", 0, type(error).__name__)
            answer = requests.Response()
            answer.status_code = 0
            return answer
        kind = answer.headers.get("content-type", "").partition(";")[0]
        place = mask(answer.headers.get("location", ""))
        self.note(f"{method} {path}", answer.status_code, f"{kind} {place}\n{_body(answer, kind)}")
        return answer

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> requests.Response:
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> requests.Response:
        return self.request("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> requests.Response:
        return self.request("DELETE", path, **options)

    def submit(
        self,
        path: str,
        fields: Mapping[str, str],
        form: int = -1,
        files: Mapping[str, Any] | None = None,
    ) -> requests.Response:
        """Fill in a form of a page and send it.

        Args:
            fields: of the form, besides what it holds already.
            form: which of the page's; -1 for the one with most of these fields.
            files: to upload, as requests takes them.
        """
        page = self.get(path)
        forms = _Forms.of(page.text)
        if not forms:
            self.note(f"form of {path}", 0, "the page has no form")
            return page
        chosen = (
            forms[form]
            if form >= 0
            else max(forms, key=lambda one: len(one.fields.intersection(fields)))
        )
        target = chosen.action or path
        if not target.startswith("/"):
            target = path.rpartition("/")[0] + "/" + target if "://" not in target else path
        data = {**chosen.values, **fields}
        headers = {"Referer": self.base + path}
        method = chosen.method.upper()
        if method == "GET":
            return self.get(target, params=data, headers=headers)
        return self.request(method, target, data=data, files=files, headers=headers)

    def many(self, path: str, count: int = 24, **options: Any) -> None:
        """Ask for one page over new connections, side by side, so that every worker is asked.

        One step, whose text is how often which status came.
        """
        cookies = self.http.cookies.copy()

        def ask(_: int) -> str:
            try:
                answer = requests.get(
                    self.base + path, timeout=TIMEOUT_S, cookies=cookies, allow_redirects=False,
                    **options,
                )  # fmt: skip
            except requests.RequestException as error:
                return type(error).__name__
            return str(answer.status_code)

        with ThreadPoolExecutor(_USERS) as pool:
            found = Counter(pool.map(ask, range(count)))
        text = ", ".join(f"{number} times {status}" for status, number in sorted(found.items()))
        self.note(f"{count} times GET {path}", 0, text, masked=True)

    def until(self, what: str, holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait for something that the site does by itself; a step with the outcome."""
        deadline = time.monotonic() + timeout_s
        while not (done := holds()) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.note(what, 0, "done" if done else "did not happen", masked=True)

    def note(self, name: str, status: int, text: str, masked: bool = False) -> None:
        """Record a step."""
        name = mask(name)
        self._names[name] += 1
        number = f" ({self._names[name]})" if self._names[name] > 1 else ""
        text = text if masked else mask(text)
        self.steps.append(Step(f"round {self.round}: {name}{number}", status, text))


def mask(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    return text


def _body(answer: requests.Response, kind: str) -> str:
    if kind.startswith("text/") or "json" in kind or "xml" in kind or "javascript" in kind:
        return answer.text[:_MAX_BODY]
    return f"{len(answer.content) > 0} bytes"


@dataclass(frozen=True, slots=True)
class _Form:
    action: str
    method: str
    values: dict[str, str]
    names: frozenset[str]

    @property
    def fields(self) -> frozenset[str]:
        return self.names


class _Forms(HTMLParser):
    """The forms of a page, with the values that they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Form] = []
        self._names: set[str] = set()
        self._select = ""

    @classmethod
    def of(cls, page: str) -> list[_Form]:
        parser = cls()
        parser.feed(page)
        parser._close()
        return parser.found

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        name = given.get("name", "")
        if tag == "form":
            self._close()
            form = _Form(given.get("action", ""), given.get("method", "get"), {}, frozenset())
            self.found.append(form)
        elif not self.found:
            return
        elif tag == "input":
            kind = given.get("type", "text")
            if name:
                self._names.add(name)
            checked = kind not in ("checkbox", "radio") or "checked" in given
            if name and checked and kind not in ("submit", "file", "button", "image"):
                self.found[-1].values[name] = given.get("value", "")
        elif tag == "select":
            self._select = name
            self._names.add(name)
        elif tag == "option" and self._select and "selected" in given:
            self.found[-1].values[self._select] = given.get("value", "")
        elif tag == "textarea" and name:
            self._names.add(name)
            self.found[-1].values.setdefault(name, "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._close()
        elif tag == "select":
            self._select = ""

    def _close(self) -> None:
        if self.found and self._names:
            last = self.found[-1]
            names = last.names | self._names
            self.found[-1] = _Form(last.action, last.method, last.values, frozenset(names))
        self._names = set()
