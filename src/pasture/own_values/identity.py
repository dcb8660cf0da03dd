"""Parts of a value that say which process has made it, and when.

The id of a process or of a thread, the host's name, a moment, random bytes, a file in the temporary
folder: each worker that makes such a value for itself has another one. So a parent must not make it
for all.

Calls no method of the value. Reads what containers of the standard library hold, and other objects,
but neither functions nor classes, up to a limit.
"""

from __future__ import annotations

import datetime
import gc
import hashlib
import os
import re
import sys
import time
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

_MAX_PARTS = 2000
_MAX_DEPTH = 6
_MAX_CHARACTERS = 10_000

_SMALL = 1000
"""Ids below are numbers that values have for other reasons: in a container they are 1, 7, 8."""

_LONG_NAME = 6
"""Characters of a host's name that is no word of other texts."""

_MARGIN_S = 1.0
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)
"""Of moments, in a second."""

_MADE_BY_TEMPFILE = re.compile(r"/tmp[a-z0-9_]{8}(?![a-z0-9_])")
_FOLDERS = ("/tmp", "/var/tmp")

_RANDOM_BYTES = 8
"""Fewer bytes may be those of anything."""

_UUID_DIGITS = 32
_GREGORIAN_TICKS = 0x01B21DD213814000  # of 100 ns, from 1582 to 1970: RFC 9562
_NUMBER = re.compile(r"\d{1,10}")
_HEX = re.compile(r"[0-9a-f]{16,128}")
_PLAIN = frozenset((str, bytes, int, float, bool, type(None), complex))
_PLAIN |= {datetime.datetime, datetime.date, datetime.time}
_CONTAINERS = frozenset((dict, list, tuple, set, frozenset, uuid.UUID))


def parts_of(value: Any) -> Iterator[Any]:
    """What a value is made of: numbers, texts and moments; a type in place of what is opaque.

    Objects are opaque inside of others: what they lead to is no longer the value's.
    """
    found = [(value, 0, False)]
    seen: set[int] = set()
    for _ in range(_MAX_PARTS):
        if not found:
            return
        one, depth, is_in_object = found.pop()
        kind = type(one)
        if type.__subclasscheck__(PurePath, kind):
            one, kind = os.fspath(one), str
        if kind in _PLAIN:
            yield one
            continue
        yield kind
        if depth >= _MAX_DEPTH or id(one) in seen:
            continue
        seen.add(id(one))
        if kind not in _CONTAINERS:
            module = type.__getattribute__(kind, "__module__")
            if is_in_object or callable(one) or module in sys.stdlib_module_names:
                continue
            is_in_object = True
        keys = list(one) if kind is dict else []  # the collector has no use for texts among them
        inside = (*keys, *gc.get_referents(one))
        found.extend((part, depth + 1, is_in_object) for part in reversed(inside))


def digest_of(value: Any) -> str:
    """Equal for values that are made of the same parts, in whatever order."""
    parts = sorted(
        type.__repr__(one) if type.__subclasscheck__(type, type(one)) else repr(one)
        for one in parts_of(value)
    )
    return hashlib.blake2b("\0".join(parts).encode(errors="replace"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Identity:
    """What is this process's own, and no other's.

    Attributes:
        since: when it began, or began to make values; seconds of `time.time()`.
        drawn: random bytes that it has drawn since.
    """

    since: float
    since_monotonic: float
    drawn: Collection[bytes] = ()

    @classmethod
    def now(cls, drawn: Collection[bytes] = ()) -> Identity:
        """That of a process that begins now. `drawn` may grow."""
        return cls(time.time(), time.monotonic(), drawn)

    def found_in(self, value: Any) -> str | None:
        """The part of a value that is this process's own, in words; None without one."""
        look = _Look(self)
        if type(value) is int and value in look.ids:
            return "the id of a process"
        return next(filter(None, map(look.at, parts_of(value))), None)


class _Look:
    """What is this process's own now, for a look at one value."""

    def __init__(self, own: Identity) -> None:
        self.ids = {os.getpid(), os.getppid()}
        self._threads = frozenset(sys._current_frames())
        self._since, self._now = own.since - _MARGIN_S, time.time() + _MARGIN_S
        self._monotonic = own.since_monotonic, time.monotonic()
        self._drawn = {one.hex() for one in own.drawn if len(one) >= _RANDOM_BYTES}
        self._drawn |= {str(int(one, 16)) for one in self._drawn}
        self._drawn |= {uuid.UUID(bytes=one, version=4).hex for one in own.drawn if len(one) == 16}
        self._host = os.uname().nodename
        self._names_host = re.compile(rf"(?<!\w){re.escape(self._host)}(?!\w)")
        self._moments = frozenset(_as_texts(own.since)) | frozenset(_as_texts(time.time()))
        named = (*_named_folders(), *_FOLDERS)
        self._folders = tuple(f"{one.rstrip('/')}/" for one in named)

        processes = sys.modules.get("multiprocessing.process")
        self._name = processes.current_process().name if processes is not None else ""

    def at(self, part: Any) -> str | None:
        kind = type(part)
        if kind is int or kind is float:
            return self._in_number(part)
        if kind is str or kind is bytes:
            text = part if kind is str else part.decode("latin-1")
            return self._in_text(text[:_MAX_CHARACTERS])
        return "a time" if kind is datetime.datetime and self._is_now(part) else None

    def _in_number(self, number: Any) -> str | None:
        if type(number) is int:
            if number >= _SMALL and number in self.ids:
                return "the id of a process"
            if number in self._threads:
                return "the id of a thread"
            if number.bit_length() > 64:  # as of a UUID
                return self._in_text(f"{number:032x}")
        if any(self._since * unit <= number <= self._now * unit for unit in _UNITS):
            return "a time"
        first, last = self._monotonic
        return "a time" if type(number) is float and first <= number <= last else None

    def _in_text(self, text: str) -> str | None:
        names_host = self._names_host.search(text) is not None
        numbers = {int(one) for one in _NUMBER.findall(text)} & self.ids
        if any(number >= _SMALL for number in numbers) or (numbers and names_host):
            return "the id of a process"
        if names_host and self._host != "localhost":
            if len(self._host) >= _LONG_NAME or text == self._host:
                return "the host's name"
        if text and text == self._name:
            return "the name of a process"
        digits = _HEX.findall(text.lower().replace("-", ""))
        if any(found in self._drawn for found in digits):
            return "a random number"
        if any(len(one) == _UUID_DIGITS and self._is_of_now(one) for one in digits):
            return "a time"
        if any(moment in text for moment in self._moments):
            return "a time"
        return "a temporary file" if self._names_file(text) else None

    def _names_file(self, text: str) -> bool:
        """Whether it has the path of a temporary file: as `tempfile` makes them, or a new one."""
        path = text[max(text.find("/"), 0) :]
        if not path.startswith(self._folders):
            return False
        if _MADE_BY_TEMPFILE.search(path):
            return True
        try:
            return os.lstat(path).st_ctime >= self._since
        except (OSError, ValueError):
            return False

    def _is_of_now(self, digits: str) -> bool:
        """Whether they are a UUID of a version that has the time in it."""
        made = uuid.UUID(hex=digits)
        if made.version == 7:
            return self._since <= (made.int >> 80) / 1000 <= self._now
        if made.version not in (1, 6):
            return False
        ticks = made.time
        if made.version == 6 and sys.version_info < (3, 14):  # it takes the order of version 1
            ticks = made.time_low << 28 | made.time_mid << 12 | made.time_hi_version % 16**3
        return self._since <= (ticks - _GREGORIAN_TICKS) / 1e7 <= self._now

    def _is_now(self, moment: datetime.datetime) -> bool:
        zones = (None, datetime.UTC) if moment.tzinfo is None else (moment.tzinfo,)
        seconds = [moment.replace(tzinfo=zone).timestamp() for zone in zones]
        return any(self._since <= one <= self._now for one in seconds)


def _named_folders() -> Iterator[str]:
    """Temporary folders of this environment; `tempfile` would try whether it can write there."""
    names = ("TMPDIR", "TEMP", "TMP")
    return filter(os.path.isabs, (os.environ.get(name, "") for name in names))


def _as_texts(second: float) -> Iterator[str]:
    """Beginnings of a moment's texts: ISO 8601 to the minute, and seconds."""
    for zone in (None, datetime.UTC):
        moment = datetime.datetime.fromtimestamp(second, zone)
        yield f"{moment:%Y-%m-%dT%H:%M}"
        yield f"{moment:%Y-%m-%d %H:%M}"
    yield str(int(second))
