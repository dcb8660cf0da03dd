"""What an image for a level of processors asks of them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pasture.errors import ImageFailed, UsageError
from pasture_image.build import processors

pytestmark = pytest.mark.once

ANY, SAME, HAS, AT_LEAST, WITHIN = range(5)
ALL = (1 << 64) - 1
FOUND = (
    *((SAME, 4096), (SAME, 1), (SAME, 2), (SAME, 3), (SAME, 0xE7), (SAME, 0xF_0000_0980)),
    *((HAS, ALL), (HAS, ALL), (HAS, ALL), (HAS, ALL), (AT_LEAST, 48)),
)
AVX2, AVX512F, AVX, PCLMULQDQ = 1 << 37, 1 << 48, 1 << 60, 1 << 33


def test_without_a_level_all_is_asked_for() -> None:
    assert processors.rules("", FOUND, ["_blake2"]) == FOUND


def test_native_asks_for_all_but_the_model() -> None:
    assert processors.rules("native", FOUND, []) == (*FOUND[:3], (ANY, 0), *FOUND[4:])


@pytest.mark.parametrize(
    ("level", "structured"),
    [("x86-64-v2", 0), ("x86-64-v3", 0x128 << 32), ("x86-64-v4", 0xD0030128 << 32)],
)
def test_a_level_asks_for_its_features_and_no_others(level: str, structured: int) -> None:
    rules = processors.rules(level, FOUND, [])
    assert rules[:2] == FOUND[:2] and rules[10] == FOUND[10]
    assert rules[2] == rules[3] == (ANY, 0)
    assert rules[7] == (HAS, structured)
    assert rules[9] == (HAS, 0)
    assert bool(rules[6][1] & AVX) is (level != "x86-64-v2")
    assert not rules[6][1] & PCLMULQDQ


def test_registers_are_saved_where_there_are_some() -> None:
    assert processors.rules("x86-64-v2", FOUND, [])[4:6] == ((ANY, 0), (ANY, 0))
    without_avx512 = (*FOUND[:4], (SAME, 0x7), *FOUND[5:])
    (rule, within), size = processors.rules("x86-64-v3", without_avx512, [])[4:6]
    assert (rule, size) == (WITHIN, (HAS, 0xF_0000_0000))
    avx, avx512, protection_keys = 0x7, 0xE0, 0x200
    assert not (avx | protection_keys) & ~within and avx512 & ~within == avx512


def test_a_module_that_keeps_a_feature_asks_for_it_if_the_build_has_it() -> None:
    rules = processors.rules("x86-64-v2", FOUND, ["json", "_blake2", "_lzma"])
    assert rules[7] == (HAS, AVX2)
    assert rules[6][1] & (AVX | PCLMULQDQ) == AVX | PCLMULQDQ
    without = (*FOUND[:7], (HAS, 0), *FOUND[8:])
    assert processors.rules("x86-64-v2", without, ["_blake2"])[7] == (HAS, 0)


def test_a_machine_below_the_level_builds_no_image_of_it() -> None:
    without = (*FOUND[:7], (HAS, ALL & ~AVX512F), *FOUND[8:])
    processors.require_machine("x86-64-v3", without)
    with pytest.raises(ImageFailed, match="below x86-64-v4"):
        processors.require_machine("x86-64-v4", without)
    with pytest.raises(ImageFailed, match="no levels of processors"):
        processors.require_machine("native", FOUND[:8])


def test_variables_that_hold_a_build_to_a_level_are_its_own() -> None:
    assert processors.variables("native", {}) == processors.variables("", {}) == {}
    with pytest.raises(UsageError, match="--cpu sets GLIBC_TUNABLES itself"):
        processors.variables("x86-64-v3", {"GLIBC_TUNABLES": ""})
    found = processors.variables("x86-64-v3", {})
    first, structured, *_ = (int(mask[1:], 16) for mask in found["OPENSSL_ia32cap"].split(":"))
    assert not first & AVX and first & PCLMULQDQ and not first & 0xFFFF_FFFF
    assert structured & 1 << 16 and not structured & 1 << 5
    assert found["OPENBLAS_CORETYPE"] == "Haswell"
    assert "X86_V4" in found["NPY_DISABLE_CPU_FEATURES"].split(",")
    assert "X86_V3" not in found["NPY_DISABLE_CPU_FEATURES"].split(",")


def library(path: Path, code: bytes, names: bytes = b"") -> str:
    """A file of which one part is mapped to be executed."""
    path.write_bytes(
        struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", *(3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        )
        + struct.pack("<IIQQQQQQ", 1, 5, 120, 0, 0, len(code), len(code), 4096)
        + code
        + names
    )
    return str(path)


def test_a_library_is_refused_if_its_code_may_ask_for_the_processor(tmp_path: Path) -> None:
    numpy = tmp_path / "site-packages" / "numpy"
    numpy.mkdir(parents=True)
    harmless = [
        library(tmp_path / "data.so", b"\x90", b"\x0f\xa2"),
        library(tmp_path / "libc-2.31.so", b"\x0f\xa2"),
        library(numpy / "umath.so", b"\x0f\xa2"),
    ]
    processors.require_held("x86-64-v3", harmless, [])
    for path in (
        library(tmp_path / "asks.so", b"\x90\x0f\xa2"),
        library(tmp_path / "libc-client.so", b"\x0f\xa2"),
        library(tmp_path / "reads.so", b"\x90", b"\0__cpu_model\0"),
    ):
        processors.require_held("native", [path], [])
        processors.require_held("x86-64-v3", [path], [Path(path).name])
        with pytest.raises(ImageFailed, match=f"above x86-64-v3: {path}"):
            processors.require_held("x86-64-v3", [*harmless, path], [])
