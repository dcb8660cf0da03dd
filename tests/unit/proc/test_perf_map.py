"""Names of generated code."""

from typing import Any

import pytest

pytest.importorskip("numpy")

from pasture.proc.elf import read_perf_map


def test_a_perf_map_names_generated_code(tmp_path: Any) -> None:
    path = tmp_path / "perf.map"
    path.write_text("2000 10 py::second:/a b.py\n1000 20 py::first:/a.py\n")
    starts, ends, names = read_perf_map(path)
    assert starts == [0x1000, 0x2000] and ends == [0x1020, 0x2010]
    assert names == ["py::first:/a.py", "py::second:/a b.py"]
