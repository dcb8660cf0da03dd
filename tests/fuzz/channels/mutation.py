"""Messages made worse: of bytes, and of JSON where a message is JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

MAX_BYTES = 70_000
"""More than any channel takes."""

NUMBERS = (0, -1, 1, 2, 127, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64)
TEXTS = ("", "\0", "\n", "\x1b[2J", "\u202e", "\ud800", "é" * 1000, "../../etc/passwd", "%s{0}")


def hostile_value(random: Random) -> Any:
    """What a field may hold that is of another type or size than is meant."""
    return random.choice(
        (
            None,
            True,
            False,
            random.choice(NUMBERS),
            -random.choice(NUMBERS),
            10 ** random.randrange(400),
            float("nan"),
            float("-inf"),
            random.random() * 1e308,
            random.choice(TEXTS),
            random.choice(TEXTS) * random.randrange(40),
            [],
            {},
            [[]] * random.randrange(300),
            {"": random.choice(TEXTS)},
            [random.choice(TEXTS)] * random.randrange(60),
        )
    )


def mutated(random: Random, sample: bytes) -> bytes:
    """A message like the sample: one in eight as it is, the others changed up to three times."""
    if not random.randrange(8):
        return sample
    data = sample
    for _ in range(1 + random.randrange(3)):
        data = random.choice(_CHANGES)(random, data)[:MAX_BYTES]
    return data


def _flip(random: Random, data: bytes) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _cut(random: Random, data: bytes) -> bytes:
    begin, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + data[end:]


def _end(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _repeat(random: Random, data: bytes) -> bytes:
    begin, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + data[begin:end] * random.randrange(2, 50) + data[end:]


def _insert(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice((1, 2, 4, 8, 64))) + data[at:]


def _number(random: Random, data: bytes) -> bytes:
    """Put a number that is at a limit in place of some bytes."""
    width = random.choice((1, 2, 4, 8))
    at = random.randrange(len(data) + 1)
    number = random.choice(NUMBERS) % (1 << 8 * width)
    return data[:at] + number.to_bytes(width, "little") + data[at + width :]


def _anything(random: Random, data: bytes) -> bytes:
    return random.randbytes(random.choice((0, 1, 7, 100, 5000)))


def _nested(random: Random, data: bytes) -> bytes:
    return random.choice((b"[", b'{"a":', b'["sealed",')) * random.choice((1, 50, 5000))


def _json(random: Random, data: bytes) -> bytes:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    return json.dumps(_worse(random, document)).encode()


def _worse(random: Random, node: Any) -> Any:
    """The document with one part of it exchanged, left out or added."""
    if isinstance(node, list) and node and random.randrange(4):
        at = random.randrange(len(node))
        return [*node[:at], _worse(random, node[at]), *node[at + 1 :]]
    if isinstance(node, dict) and node and random.randrange(4):
        key = random.choice(list(node))
        if not random.randrange(5):
            return {name: value for name, value in node.items() if name != key}
        return {**node, key: _worse(random, node[key])}
    if isinstance(node, dict) and random.randrange(2):
        return {**node, random.choice(TEXTS): hostile_value(random)}
    return hostile_value(random)


_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(_flip, _cut, _end, _repeat, _insert, _number, _anything, _nested),
    *(_json,) * 8,
)
