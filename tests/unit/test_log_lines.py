"""Log lines that are read again: what writes them, and what finds them."""

import ast
import logging
from pathlib import Path

import pytest

import pasture
from pasture import log_lines
from pasture.log_lines import PREFIX, find, first_of, some

FORMATS = {
    name: value
    for name, value in vars(log_lines).items()
    if name.isupper() and isinstance(value, str) and "%s" in value
}
SOURCES = sorted(Path(pasture.__file__).parent.parent.glob("pasture*/**/*.py"))


def log_of(*texts: str) -> str:
    return "".join(f"[7] [INFO] {PREFIX}{text}\n" for text in ("before", *texts, "after"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_is_found_with_the_values_that_were_written(name: str) -> None:
    line = FORMATS[name]
    values = tuple(f"(value; {n})" for n in range(line.count("%s")))
    assert find(line, log_of(line % values)) == values
    assert find(line, log_of()) is None
    assert find(line, line % values) is None, "of another program than pasture"


def test_a_value_ends_where_its_line_does() -> None:
    log = log_of(log_lines.NO_REFORK % "policy seal  ", log_lines.NO_REFORK % "later")
    assert find(log_lines.NO_REFORK, log) == ("policy seal",)


@pytest.fixture(scope="module")
def names_used() -> dict[Path, set[str]]:
    """Of each module."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in SOURCES}
    return {
        path: {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for path, tree in trees.items()
    }


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_has_a_writer_and_a_reader(name: str, names_used: dict[Path, set[str]]) -> None:
    users = {path for path, names in names_used.items() if name in names}
    readers = {path for path in users if path.parent.name == "trial"}
    assert readers and users - readers


def test_no_module_has_such_a_line_of_its_own() -> None:
    begins = [PREFIX + line.partition("%s")[0] for line in FORMATS.values()]
    begins = [begin for begin in begins if begin != PREFIX]
    own = [
        (path.name, node.value)
        for path in SOURCES
        if path.name != "log_lines.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (PREFIX + node.value.removeprefix(PREFIX)).startswith(tuple(begins))
    ]
    assert own == []


def test_why_a_start_is_plain_is_found_in_its_line() -> None:
    line = log_lines.NO_SEAL % "plain, because the probe failed: GET /: 500"
    found = ("plain, because the probe failed: GET /: 500",)
    assert find(log_lines.NO_SEAL, log_of(line)) == found


def test_an_applications_configuration_does_not_disable_pastures_logger() -> None:
    theirs = logging.getLogger("a.server.of.these.tests")
    for logger in (theirs, log_lines.log):
        logger.disabled = True  # as of `logging.config`
    assert theirs.disabled
    assert not log_lines.log.disabled
    assert log_lines.log.isEnabledFor(logging.ERROR)
    log_lines.enable(theirs)
    assert not theirs.disabled
    log_lines.enable(None)


def test_pastures_logger_keeps_its_class_and_its_level() -> None:
    class Applications(logging.Logger):
        """Of a program that has set a class of loggers before it imports pasture."""

    theirs = Applications("x")
    found = log_lines._never_disabled(theirs)
    assert found is theirs
    assert isinstance(found, Applications)
    found.setLevel(logging.ERROR)
    assert not found.isEnabledFor(logging.INFO)


@pytest.mark.parametrize(
    ("names", "shown"), [("", ""), ("a", "a"), ("ab", "a, b"), ("abcd", "a, b and 2 more")]
)
def test_a_list_in_a_line_names_the_first_and_counts_the_rest(names: str, shown: str) -> None:
    assert some(names, 2) == shown


@pytest.mark.parametrize(
    ("lines", "shown"), [("", []), ("ab", ["a", "b"]), ("abcd", ["a", "b", "2 more differ"])]
)
def test_lines_of_a_log_are_cut_and_counted(lines: str, shown: list[str]) -> None:
    assert first_of(lines, 2, "differ") == shown
