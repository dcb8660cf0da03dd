"""Symbols of programs on disk."""

import struct
from typing import Any

import pytest

pytest.importorskip("numpy")

from pasture_tools.proc.elf import parse_elf, read_elf, read_perf_map

pytestmark = pytest.mark.interpreter


def test_symbols_of_the_interpreter_are_found_in_its_file() -> None:
    import pasture._native

    elf = read_elf(pasture._native.__file__)
    assert elf.end > 0
    named = dict(zip(elf.names, elf.values, strict=True))
    assert elf.symbol(named["PyInit__native"]) == "PyInit__native"
    assert "PyModuleDef_Init" in elf.needs


def test_a_file_that_is_no_elf_file_has_no_symbols(tmp_path: Any) -> None:
    (tmp_path / "text").write_text("nothing")
    assert read_elf(str(tmp_path / "text")).symbol(5) == ""
    assert read_elf(str(tmp_path / "missing")).end == 0
    with pytest.raises((ValueError, struct.error)):
        parse_elf(b"\x7fELF" + bytes(60))


# --- Names of generated code ---


def test_a_perf_map_names_generated_code(tmp_path: Any) -> None:
    path = tmp_path / "perf.map"
    path.write_text("2000 10 py::second:/a b.py\n1000 20 py::first:/a.py\n")
    starts, ends, names = read_perf_map(path)
    assert starts == [0x1000, 0x2000] and ends == [0x1020, 0x2010]
    assert names == ["py::first:/a.py", "py::second:/a b.py"]
