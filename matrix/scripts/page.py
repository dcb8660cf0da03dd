"""docs/results/scripts.md, out of what is kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from matrix.environments import REPOSITORY
from matrix.page import table
from matrix.scripts.catalog import CATALOG
from matrix.scripts.runs import Outcome
from matrix.store import replace

PAGE = REPOSITORY / "docs" / "results" / "scripts.md"

_TEXT = """\
# Console scripts out of images

Written by `make test-scripts`. The applications that pipx's own tests install, each in an
environment of its own with the scripts of its dependencies, and the modules with a command line of
CPython's documentation, by `python` and out of an [image](../image.md): `--help`, `--version`, an
option that is not there, and small inputs. Compared are the exit status, standard output and error,
and the files that a program leaves ([matrix/scripts](../../matrix/scripts/README.md)).

{tally}

`varies`: `python` gives several results itself, and this one. `others`: the program differs out of
this image, and not out of one of its own module: another preloaded module has changed what it uses.
`no end`: it waits for something, both ways. Those that differ, or that `python` ran:

{reasons}

Left out, or without an image:

{failed}
"""

Found = dict[tuple[str, str, str], Outcome]
"""By kind of the image, application and case."""


def write_page(found: Found, failed: Mapping[str, str]) -> None:
    """Write the page."""
    verdicts = ("same", "varies", "others", "differs", "not served", "no end")
    rows = []
    for kind in dict.fromkeys(kind for kind, _, _ in found):
        mine = {key: one for key, one in found.items() if key[0] == kind}
        count = Counter(one.verdict for one in mine.values())
        programs = {(app, case.partition(" ")[0]) for _, app, case in mine}
        sizes = (len({app for app, _ in programs}), len(programs), len(mine))
        rows.append([kind, *map(str, sizes), *(f"{count[v]}" for v in verdicts)])
    tally = table(["modules", "environments", "programs", "starts", *verdicts], rows)
    reasons = table(["reason", "where"], _reasons(found))
    left = {**CATALOG["left_out"], **{k: v for k, v in failed.items() if v}}
    by_reason: dict[str, dict[str, None]] = {}
    for name, why in sorted(left.items()):
        kinds = ", ".join(re.findall(r"--allow (\w+)", why))
        names = by_reason.setdefault(f"refused for {kinds}" if kinds else why, {})
        names[name.partition(" ")[0]] = None
    lines = "\n".join(f"- {why}: {', '.join(names)}" for why, names in by_reason.items())
    replace(PAGE, _TEXT.format(tally=tally, reasons=reasons, failed=lines))


def _reasons(found: Found) -> Iterator[list[str]]:
    by_reason: dict[str, dict[str, None]] = {}
    for (_, _, case), one in found.items():
        if one.verdict in ("differs", "others", "not served"):
            name = case.partition(" ")[0]
            listed = by_reason.setdefault(f"{one.verdict}: {_reason(one)}", {})
            listed[name] = None
    for why, names in sorted(by_reason.items()):
        yield [why, ", ".join(names)]


def _reason(one: Outcome) -> str:
    """In words: what catalog.toml says, or what was seen."""
    if one.verdict == "others":
        return "another preloaded module changes what it uses"
    for part, why in CATALOG["reasons"].items():
        if part in one.why:
            return str(why)
    seen = one.why.rpartition("/bin/python: ")[2].replace(str(REPOSITORY), "")
    return seen.replace("|", "\\|").replace("\n", " ")[:160]
