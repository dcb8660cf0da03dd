"""tools/wheels: how wheels are named, and what makes one unfit for its target."""

import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "wheels"
X86, ARM = "manylinux_2_28_x86_64", "manylinux_2_28_aarch64"
MUSL = "musllinux_1_2_x86_64"


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("wheels")


def library_that_needs(*versions: str) -> bytes:
    """The part of a shared library that counts here: its strings."""
    strings = [b"libc.so.6", b"memcpy", *(version.encode() for version in versions)]
    return b"\x7fELF\0\1\2" + b"\0".join([b"", *strings, b""]) + b"\xff\xfe"


@pytest.fixture
def make_wheel(tmp_path: Path, tool: ModuleType) -> Any:
    def make(
        part: str = "pasture", licences: tuple[str, ...] | None = None, **files: bytes
    ) -> Path:
        path = tmp_path / f"{part}-1.0-cp313-cp313-linux_x86_64.whl"
        kept = tool.LICENCES[part] if licences is None else licences
        files |= {f"{part}-1.0.dist-info/licenses/{name}": b"text" for name in kept}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path

    return make


def extension(tool: ModuleType, target: str, minor: str = "3.13") -> str:
    return f"pasture/_native.{tool.soabi(minor, tool.TARGETS[target])}.so"


@pytest.mark.parametrize(
    ("minor", "target", "name"),
    [
        ("3.13", X86, "cpython-313-x86_64-linux-gnu"),
        ("3.11", ARM, "cpython-311-aarch64-linux-gnu"),
        ("3.15", MUSL, "cpython-315-x86_64-linux-musl"),
    ],
)
def test_extensions_are_named_as_the_targets_interpreter_looks_for_them(
    tool: ModuleType, minor: str, target: str, name: str
) -> None:
    assert tool.soabi(minor, tool.TARGETS[target]) == name


@pytest.mark.parametrize(
    ("wheel", "target", "is_fit"),
    [
        ("p-1-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", X86, True),
        ("p-1-cp313-cp313-manylinux_2_28_x86_64.whl", X86, True),
        ("p-1-cp313-cp313-manylinux_2_34_x86_64.whl", X86, False),
        ("p-1-cp313-cp313-manylinux_2_17_aarch64.whl", X86, False),
        ("p-1-cp313-cp313-linux_x86_64.whl", X86, False),
        ("p-1-cp313-cp313-musllinux_1_2_x86_64.whl", X86, False),
        ("p-1-cp313-cp313-musllinux_1_2_x86_64.whl", MUSL, True),
        ("p-1-cp313-cp313-manylinux_2_17_x86_64.whl", MUSL, False),
    ],
)
def test_a_wheel_is_fit_for_its_own_system_and_newer_ones(
    tool: ModuleType, wheel: str, target: str, is_fit: bool
) -> None:
    assert tool.fits(wheel, tool.TARGETS[target]) is is_fit


def test_the_newest_version_of_glibc_counts_as_a_number(tool: ModuleType) -> None:
    assert tool.newest_glibc(library_that_needs("GLIBC_2.4", "GLIBC_2.17", "GLIBC_2.2.5")) == (
        2,
        17,
    )
    assert tool.newest_glibc(library_that_needs()) is None


@pytest.mark.parametrize("version", ["GLIBC_2.29", "GLIBC_2.33"])
def test_a_wheel_that_needs_a_newer_glibc_is_not(
    tool: ModuleType, make_wheel: Any, version: str
) -> None:
    wheel = make_wheel(**{extension(tool, X86): library_that_needs("GLIBC_2.2.5", version)})
    with pytest.raises(tool.WheelError, match=f"symbols of glibc {version[6:]}, which {X86} lacks"):
        tool.check_contents(wheel, "3.13", tool.TARGETS[X86])


def test_a_wheel_with_a_program_that_needs_a_newer_glibc_is_not(
    tool: ModuleType, make_wheel: Any
) -> None:
    program = "pasture_image-1.0.data/scripts/pasture-python"
    tool.check_contents(
        make_wheel("pasture_image", **{program: library_that_needs("GLIBC_2.28")}),
        "3.13",
        tool.TARGETS[X86],
    )
    wheel = make_wheel("pasture_image", **{program: library_that_needs("GLIBC_2.34")})
    with pytest.raises(tool.WheelError, match=r"pasture-python of .* needs symbols of glibc 2\.34"):
        tool.check_contents(wheel, "3.13", tool.TARGETS[X86])


def test_a_wheel_for_musl_needs_no_glibc_at_all(tool: ModuleType, make_wheel: Any) -> None:
    tool.check_contents(
        make_wheel(**{extension(tool, MUSL): library_that_needs()}), "3.13", tool.TARGETS[MUSL]
    )
    wheel = make_wheel(**{extension(tool, MUSL): library_that_needs("GLIBC_2.2.5")})
    with pytest.raises(tool.WheelError, match=r"needs symbols of glibc 2\.2"):
        tool.check_contents(wheel, "3.13", tool.TARGETS[MUSL])


def test_a_wheel_with_the_extension_of_another_target_is_not_taken(
    tool: ModuleType, make_wheel: Any
) -> None:
    wheel = make_wheel(**{extension(tool, ARM): library_that_needs()})
    with pytest.raises(tool.WheelError, match="aarch64"):
        tool.check_contents(wheel, "3.13", tool.TARGETS[X86])


def test_a_wheel_without_the_licence_of_a_c_library_is_not_taken(
    tool: ModuleType, make_wheel: Any
) -> None:
    wheel = make_wheel("pasture_image", licences=("licenses/LGPL-2.1.txt",))
    with pytest.raises(tool.WheelError, match=r"lacks licenses/musl\.txt, licenses/glibc\.txt"):
        tool.check_contents(wheel, "3.13", tool.TARGETS[X86])


def test_the_licences_that_a_wheel_must_hold_are_those_of_the_project(tool: ModuleType) -> None:
    root = SCRIPT.parents[1]
    texts = {f"licenses/{path.name}" for path in root.glob("packages/image/licenses/*.txt")}
    assert texts == set(tool.LICENCES["pasture_image"])
    assert 'license-files = ["LICENSE"]' in (root / "pyproject.toml").read_text()
    image = (root / "packages" / "image" / "pyproject.toml").read_text()
    assert 'license-files = ["licenses/*.txt"]' in image


def test_a_wheel_that_brings_libraries_along_is_not_taken(
    tool: ModuleType, make_wheel: Any
) -> None:
    files = {extension(tool, X86): library_that_needs(), "pasture.libs/libgcc_s.so.1": b""}
    with pytest.raises(tool.WheelError, match="libgcc_s"):
        tool.check_contents(make_wheel(**files), "3.13", tool.TARGETS[X86])


@pytest.mark.parametrize(
    ("target", "libraries"), [("x86_64-linux-musl", []), ("x86_64-linux-gnu.2.28", ["-ldl"])]
)
def test_the_compiler_for_musl_is_not_asked_for_libdl(
    tmp_path: Path, target: str, libraries: list[str]
) -> None:
    zig = tmp_path / "zig"
    zig.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    zig.chmod(0o755)
    environment = {**os.environ, "PASTURE_TARGET": target, "PASTURE_ZIG": str(zig)}
    command = [str(SCRIPT.with_name("zig-cc")), "-shared", "a b.o", "-ldl", "-o", "x.so"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = ["-m", "ziglang", "cc", "-target", target, "-shared", "a b.o", *libraries]
    assert done.stdout.splitlines() == [*words, "-o", "x.so"]
