"""The documentation: every page, heading and file that is named is there, and tables are whole."""

import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]

_LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^ *```[\s\S]*?^ *```", re.MULTILINE)
_CODE = re.compile(_FENCED.pattern + r"|^(?: {4}.*(?:\n|$))+", re.MULTILINE)
_MENTION = re.compile(r"(?<![\w/.-])((?:[\w-]+/)+[\w-]+\.md)\b")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ROWS = re.compile(r"(?:^ *\|.*\n?)+", re.MULTILINE)
_RULE = re.compile(r" *\|(?: *:?-+:? *\|)+ *")


@functools.cache
def _tracked() -> tuple[str, ...]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a clone of the repository", allow_module_level=True)
    names = listed.stdout.decode().split("\0")
    return tuple(name for name in names if name and (ROOT / name).is_file())


def _pages() -> list[str]:
    return [name for name in _tracked() if name.endswith(".md")]


@functools.cache
def _anchors(page: Path) -> frozenset[str]:
    """The names that GitHub gives to a page's headings."""
    text = _FENCED.sub("", page.read_text())
    headings = (_LINK.sub(_label, heading) for heading in _HEADING.findall(text))
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
    )


def _label(link: re.Match[str]) -> str:
    return link.group(0)[1:].split("]", 1)[0]


def _links(page: str) -> Iterator[tuple[Path, str]]:
    """Targets of a page's relative links, as files and anchors."""
    path = ROOT / page
    for target in _LINK.findall(_CODE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        yield ((path.parent / file).resolve() if file else path), anchor


def broken_links(page: str) -> list[str]:
    """What a page links to and what is not there."""
    broken = []
    for file, anchor in _links(page):
        if not file.exists():
            broken.append(str(file.relative_to(ROOT)))
        elif anchor and file.suffix == ".md" and anchor not in _anchors(file):
            broken.append(f"{file.relative_to(ROOT)}#{anchor}")
    return broken


def missing_mentions(text: str, folder: Path = ROOT) -> list[str]:
    """Pages that a text names by their path in the repository, or from its own folder."""
    named = set(_MENTION.findall(text))
    return sorted(p for p in named if not ((ROOT / p).is_file() or (folder / p).is_file()))


def broken_tables(page: str) -> list[str]:
    """The first row of each table that has no head, or whose head has another number of cells."""
    broken = []
    for table in _ROWS.findall(_CODE.sub("", (ROOT / page).read_text())):
        head, rule = [*table.splitlines(), ""][:2]
        bars = head.replace(r"\|", "").count("|")
        if not _RULE.fullmatch(rule) or rule.count("|") != bars:
            broken.append(head)
    return broken


@pytest.mark.parametrize("page", _pages())
def test_every_row_of_a_page_belongs_to_a_table_with_a_head(page: str) -> None:
    assert broken_tables(page) == []


@pytest.mark.parametrize("page", _pages())
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    assert broken_links(page) == []


def test_every_page_that_a_file_names_is_there() -> None:
    missing = {}
    for name in _tracked():
        if name.endswith(".md") or name == "tests/unit/test_doc_links.py":
            continue
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        if found := missing_mentions(text, (ROOT / name).parent):
            missing[name] = found

    assert missing == {}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.is_file():
            continue
        reached.add(page)
        links = _links(str(page.relative_to(ROOT)))
        waiting += [file for file, _ in links if file.suffix == ".md"]
    entrances = {"README.md", "CHANGELOG.md"}

    assert [p for p in _pages() if p not in entrances and ROOT / p not in reached] == []


def test_a_link_to_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# One `two`, three\n")
    (tmp_path / "page.md").write_text(
        "[a](there.md#one-two-three) [b](there.md#four) [c](gone.md)\n\n    [d](code.md)\n"
    )

    assert broken_links("page.md") == ["there.md#four", "gone.md"]
    assert missing_mentions("see docs/gone.md") == ["docs/gone.md"]


def test_a_table_without_a_head_or_split_by_a_blank_line_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(
        "| a | b |\n| --- | --: |\n| 1 | `x\\|y` |\n\n| 2 | 3 |\n\ntext\n\n"
        "| no | head |\n| c | d |\n\n```\n| code |\n```\n\n| a | b |\n| --- |\n"
    )

    assert broken_tables("page.md") == ["| 2 | 3 |", "| no | head |", "| a | b |"]
