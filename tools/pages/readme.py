"""What is made from README.md: docs/memory.svg, a picture of its table, and docs/pypi.txt.

docs/pypi.txt is the long description of the package. An index of packages shows it alone, so a link
to a file here leads to the project's address, if `[project.urls]` in pyproject.toml has a `Source`,
and is plain text without one.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "memory.svg"
DESCRIPTION = ROOT / "docs" / "pypi.txt"
LINE = re.compile(r"^(stock|warm-freeze|seal) +([\d.]+) MB +([\d.]+) MB", re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)")
SHARED, PRIVATE = "#4c956c", "#d68c45"
LEFT, WIDTH, BAR, ROW = 118, 460, 26, 44


@dataclass(frozen=True, slots=True)
class Bar:
    """A policy's memory, in MB: of one worker alone, and of the server with all that is shared."""

    policy: str
    private: float
    total: float


def bars(readme: str) -> list[Bar]:
    """The rows of the table that `pasture try` printed."""
    return [Bar(name, float(own), float(all_)) for name, own, all_ in LINE.findall(readme)]


def picture(readme: str) -> str:
    """Bars of what is shared, and a block for each worker's own."""
    found = re.search(r"gunicorn with (\d+) workers", readme)
    assert found is not None, "README.md does not say how many workers"
    workers, rows = int(found[1]), bars(readme)
    scale = WIDTH / max(row.total for row in rows)
    height = 62 + ROW * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {height}" width="680" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#222">',
        f'<rect width="680" height="{height}" rx="6" fill="#fff"/>',
        f'<text x="16" y="26" font-weight="600">Memory of {workers} workers and parent</text>',
        *_legend(350, "shared", SHARED),
        *_legend(440, "a worker's own", PRIVATE),
    ]
    for number, row in enumerate(rows):
        y = 50 + ROW * number
        middle = y + BAR / 2 + 5
        own = row.private * scale
        shared = row.total * scale - workers * own
        lines.append(f'<text x="16" y="{middle:.0f}">{escape(row.policy)}</text>')
        lines.append(_block(LEFT, y, shared, SHARED))
        for worker in range(workers):
            lines.append(_block(LEFT + shared + worker * own, y, own, PRIVATE))
        end = LEFT + row.total * scale + 8
        lines.append(f'<text x="{end:.0f}" y="{middle:.0f}">{row.total:g} MB</text>')
    return "\n".join([*lines, "</svg>", ""])


def _legend(x: int, text: str, color: str) -> tuple[str, str]:
    box = f'<rect x="{x}" y="15" width="13" height="13" fill="{color}"/>'
    return box, f'<text x="{x + 19}" y="26">{text}</text>'


def _block(x: float, y: float, width: float, color: str) -> str:
    place = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"'
    return f'<rect {place} fill="{color}" stroke="#fff" stroke-width="1"/>'


def description(readme: str, address: str | None) -> str:
    """README.md without links that lead nowhere outside of the repository."""

    def outside(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if address is None:
            return "" if mark else text
        return f"{mark}[{text}]({address.rstrip('/')}/{target})"

    head = "<!-- Written by `make pages` out of README.md. -->\n\n"
    return head + re.sub(r"\n{3,}", "\n\n", LINK.sub(outside, readme))


def address() -> str | None:
    """Where the files of the project can be read, if that is known."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    source = project.get("urls", {}).get("Source")
    return None if source is None else str(source)


def main() -> None:
    readme = README.read_text()
    PICTURE.write_text(picture(readme))
    DESCRIPTION.write_text(description(readme, address()))
