"""docs/settings.md out of the rows of the settings."""

from __future__ import annotations

from pathlib import Path

from pasture.servers.engines import ENGINES
from pasture.serving.setting import Setting
from pasture.serving.settings import SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
TEXT = """\
<!-- Written by `make pages`. -->

# Settings

`--max-uss 200M` of `pasture run`, `PASTURE_MAX_USS=200M` in the server's environment and, under
gunicorn, `configure(max_uss="200M")` are the same setting. A variable wins over `configure()`; one
that is empty is unset. A switch is 1, on, true or yes in its variable, or 0, off, false or no;
where an option may be repeated, the variable has one a line. Where no engine is named, all know the
setting.

| option | variable | meaning | known to |
| --- | --- | --- | --- |
"""


def row(setting: Setting) -> str:
    """The line of a setting."""
    words = " ".join(setting.takes) if isinstance(setting.takes, tuple) else setting.metavar
    option = f"{setting.option} {words}".strip().replace("/", " ") if setting.option else ""
    text = setting.help.replace("  [", " [").replace("*", "\\*")
    known = [one.name for one in ENGINES.values() if one.is_program and setting.is_known_to(one)]
    engines = "" if setting.engines is None else ", ".join(known)
    return f"| {_code(option)} | {_code(setting.variable)} | {text} | {engines} |\n"


def _code(text: str) -> str:
    return text and f"`{text}`"


def page() -> str:
    """The whole page."""
    return TEXT + "".join(map(row, SETTINGS.values()))
