"""The results as text: a part is a table, a row a line."""

from __future__ import annotations

from typing import Any

LONG = ("text", "log", "error")


def text_of(part: str, rows: dict[str, Any]) -> str:
    lines = [f"== {part} ({rows.get('seconds', '-')} s)"]
    for row in rows["rows"]:
        fields = [f"{name}={short(value)}" for name, value in row.items() if name not in LONG]
        lines.append("  " + "  ".join(fields).removeprefix("name="))
        for name in LONG:
            if row.get(name):
                lines += [f"      {name}: {line}" for line in str(row[name]).splitlines()]
    if "error" in rows:
        lines += [f"  ! {line}" for line in rows["error"].splitlines()]
    return "\n".join(lines) + "\n"


def short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)
