"""No room in Python knows a number of CPython's layouts: the extension has verified them.

`_native.field_offsets` has offsets, sizes and bits. A number of another source (glibc, the kernel,
pasture's own) may look alike: it is in `OTHERS`, with the reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pasture
from pasture.interpreter import fields
from pasture_tools.proc.address_space import WORD_BYTES
from pasture_tools.proc.pymalloc import own_pools

REPOSITORY = Path(pasture.__file__).parents[2]
ROOMS = (
    "src/pasture_tools/explain",
    "src/pasture_tools/doctor",
    "packages/image/src/pasture_image",
    "src/pasture/sealing/exit.py",
    "src/pasture_tools/proc/pymalloc.py",
)
OTHERS = {
    ("owners.py", "_MAX_KEY = 40"): "characters that are shown of a key",
    ("snapshot.py", "_MAX_FILE_BYTES = 2 << 30"): "of a file",
    ("lookups.py", "_MAX_LINKS = 40"): "links that the kernel follows",
}


def files() -> Iterator[Path]:
    for room in ROOMS:
        path = REPOSITORY / room
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def number(node: ast.AST) -> int | None:
    """The value of a number that is written out, as `16`, `-24` or `1 << 31`."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = number(operand)
            return None if positive is None else -positive
        case ast.BinOp(left=left, op=ast.LShift(), right=right):
            parts = number(left), number(right)
            return None if parts[0] is None or parts[1] is None else parts[0] << parts[1]
    return None


READERS = frozenset(("word", "read", "pread"))
"""Functions that read memory at an address."""


def is_layout(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):  # a flag is asked for
            return bool({number(left), number(right)} & FLAGS)
        case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in READERS:
            return any(map(adds_an_offset, arguments))
        case ast.Assign(value=ast.BinOp() as value):
            return number(value) in FLAGS
        case ast.Assign(value=value):
            return number(value) in SIZES
    return False


def adds_an_offset(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return number(left) is None and abs(number(right) or 0) >= WORD_BYTES
    return False


def literals(path: Path) -> list[tuple[str, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    found = [(path.name, ast.unparse(node)) for node in ast.walk(tree) if is_layout(node)]
    return [one for one in found if one not in OTHERS]


FLAGS = frozenset(1 << bit for bit in fields()["(type flags)"].values())
SIZES = frozenset(
    (
        *(-size for size in fields()["(before)"].values()),
        *(fields()["(pool)"]["bytes"], fields()["(pool)"]["header_bytes"]),
        fields()["(member)"]["bytes"],
    )
)


@pytest.mark.parametrize("path", list(files()), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_module_reads_no_layout_by_a_number_of_its_own(path: Path) -> None:
    assert literals(path) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = info.flags & 1 << 31",
        "_HAVE_GC = 1 << 14",
        "size = space.word(address + 16)",
        "_DICT_BEFORE = -24",
        "_POOL_BYTES = 16384",
    ],
)
def test_such_a_number_is_found(text: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(text)
    assert literals(module)


@pytest.mark.interpreter
def test_the_extension_knows_what_readers_ask_for() -> None:
    pools = own_pools()
    assert pools is not None
    assert (pools.pool_bytes, pools.header_bytes, pools.classes) == (16384, 48, 32)
    assert fields()["(before)"] == {"gc": 16, "dict": 24, "weakrefs": 32}
    assert fields()["(str state)"] == {"kind": 7 << 2, "compact": 1 << 5, "ascii": 1 << 6}
    flags = fields()["(type flags)"]
    metaclass: Any = type
    assert type.__getattribute__(metaclass, "__flags__") >> flags["TYPE_SUBCLASS"] & 1
    assert not int.__flags__ >> flags["TYPE_SUBCLASS"] & 1
    assert Path.__flags__ >> flags["HEAPTYPE"] & 1 and not int.__flags__ >> flags["HEAPTYPE"] & 1
    assert list.__flags__ >> flags["HAVE_GC"] & 1 and not int.__flags__ >> flags["HAVE_GC"] & 1
