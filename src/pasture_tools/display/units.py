"""Figures as a person reads them. 1 MB is 1,000,000 bytes, everywhere in pasture."""

from __future__ import annotations

BYTES_PER_MB = 1_000_000


def megabytes(size_bytes: float) -> str:
    """Bytes as `12.3 MB`, without decimals from 100 MB on."""
    size = size_bytes / BYTES_PER_MB
    return f"{size:,.0f} MB" if abs(size) >= 100 else f"{size:.1f} MB"


def percent(fraction: float) -> str:
    """A fraction as `54 %`."""
    return f"{fraction * 100:.0f} %"


def milliseconds(value_ms: float) -> str:
    """Milliseconds with two decimals below 1, one below 10, none above."""
    if value_ms < 1:
        return f"{value_ms:.2f}"
    return f"{value_ms:.1f}" if value_ms < 10 else f"{value_ms:,.0f}"


def seconds(value_s: float) -> str:
    """Seconds as `0.42 s`, with one decimal from 10 s on."""
    return f"{value_s:.2f} s" if value_s < 10 else f"{value_s:.1f} s"


def duration(value_s: float) -> str:
    """A time as a person plans it: seconds below two minutes, then minutes."""
    return f"{value_s:.0f} s" if value_s < 120 else f"{value_s / 60:.0f} min"


def count(number: int, noun: str) -> str:
    """A number with its noun, as in `1 worker`, `4 workers`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
