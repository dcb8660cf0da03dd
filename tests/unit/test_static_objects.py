"""Static variables of the extension that hold objects of an interpreter are forgotten with it."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

NATIVE = Path(__file__).parent.parent.parent / "src" / "native"

HELD = "PyObject|PyTypeObject|container_type|dying_module|scratch_stack|mark_bits|PyGC_Head"
HOLDS = rf"(?:{HELD}|frozen_part)\b"
SIMPLE = re.compile(rf"^static {HOLDS} \**([^;(=]+);", re.M)
STRUCT = re.compile(
    rf"^static struct \{{\n((?:(?!^\}}).*\n)*?[^\n]*{HOLDS}(?:(?!^\}}).*\n)*)\}} (\w+)", re.M
)
LOCAL = re.compile(rf"^ +static {HOLDS}.*;", re.M)
FORGETS = re.compile(
    r"^(\w+_forget|hotcode_choose|order_release)\([^{]*\)\n\{\n(.*?)^\}", re.M | re.S
)


def held_by(text: str) -> set[str]:
    """Names of the file's own variables with objects, or addresses of them."""
    simple = {name.strip(" *") for names in SIMPLE.findall(text) for name in names.split(",")}
    return simple | {name for _, name in STRUCT.findall(text)}


def forgotten_by(text: str) -> str:
    return "".join(body for _, body in FORGETS.findall(text))


def test_each_file_forgets_the_objects_that_its_variables_hold() -> None:
    found = set()
    for path in NATIVE.rglob("*.c"):
        text = path.read_text()
        assert not LOCAL.findall(text), f"{path}: a variable that nothing can forget"
        held, forgotten = held_by(text), forgotten_by(text)
        assert {name for name in held if not re.search(rf"\b{name}\b", forgotten)} == set(), path
        found |= held
    assert {"hook", "modules", "known", "frozen", "owner", "watched"} <= found


def test_all_that_forgets_is_called_when_an_interpreter_begins() -> None:
    everything = "".join(path.read_text() for path in NATIVE.rglob("*.c"))
    for name, _ in FORGETS.findall(everything):
        assert len(re.findall(rf"\b{name}\(", everything)) > len(
            re.findall(rf"^{name}\(", everything, re.M)
        ), f"{name} is called nowhere"
