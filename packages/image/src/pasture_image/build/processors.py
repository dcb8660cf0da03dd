"""Images for all processors of a level (`--cpu`): features that an image may use, and no others.

Libraries choose functions by CPUID when they are loaded, and the choice lies in the image. Some can
be held to a level by a variable, which the builder has and programs do not: the C library, OpenSSL,
OpenBLAS, numpy. Modules of CPython choose by a feature that is then asked of each processor. Every
other library that has the bytes of the CPUID instruction in its code is refused: a function of it
could need what another processor lacks.

Sources: x86-64 psABI 1.0, table 3.1 (levels); glibc manual, "Tunables" (glibc.cpu.hwcaps);
OPENSSL_ia32cap(3); OpenBLAS README (OPENBLAS_CORETYPE); numpy, "CPU build options".
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pasture.errors import ImageFailed, UsageError
from pasture.interpreter import native
from pasture_image.build.build_id import code

_ANY, _SAME, _HAS, _AT_LEAST, _WITHIN = range(5)
"""`host_rule` of src/stub/host.h."""

_MAKER, _MODEL, _REGISTERS, _STATE, _FIRST, _STRUCTURED, _MORE, _LAST = range(2, 10)
"""Facts by their place in src/stub/host.c."""

_V2 = {
    _FIRST: (0x0098_2201, 0x0780_8101),  # SSE3, SSSE3, CX16, SSE4.1, SSE4.2, POPCNT; FPU to SSE2
    _MORE: (0, 0x1),  # LAHF
}
_V3 = {
    _FIRST: (0x3CD8_3201, 0x0780_8101),  # and FMA, MOVBE, XSAVE, OSXSAVE, AVX, F16C
    _STRUCTURED: (0x0000_0128, 0),  # BMI1, AVX2, BMI2
    _MORE: (0, 0x21),  # and LZCNT
}
_V4 = {**_V3, _STRUCTURED: (0xD003_0128, 0)}  # and AVX512F, DQ, CD, BW, VL
_FEATURES = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
LEVELS = (*_FEATURES, "native")

_NUMPY = {
    "x86-64-v2": ("X86_V2", "SSE", "SSE2", "SSE3", "SSSE3", "SSE41", "POPCNT", "SSE42"),
    "x86-64-v3": ("X86_V3", "AVX", "F16C", "FMA3", "AVX2"),
    "x86-64-v4": ("X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX"),
}
"""What numpy may choose functions for, at each level and those above."""
_NUMPY_REST = (
    *("XOP", "FMA4", "AVX512_KNL", "AVX512_KNM", "AVX512_CLX", "AVX512_CNL", "AVX512_ICL"),
    "AVX512_SPR",
)
_CORES = {"x86-64-v2": "Nehalem", "x86-64-v3": "Haswell", "x86-64-v4": "SkylakeX"}
_LIBC = {
    "x86-64-v2": (
        *("XSAVE", "XSAVEC", "AVX", "AVX2", "FMA", "FMA4", "BMI1", "BMI2", "LZCNT", "MOVBE"),
        *("F16C", "AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "RTM", "EVEX"),
    ),
    "x86-64-v3": ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "RTM", "FMA4"),
    "x86-64-v4": ("RTM", "FMA4"),
}

_COVERED = re.compile(
    r"/(ld-linux-x86-64|libc|libm|libpthread|libcrypto|libssl|libgcc_s|libstdc\+\+|libzstd|liblzma)"
    r"(-[0-9a-f.]+)?\.so[^/]*$|/lib(scipy_)?openblas[^/]*$"
    r"|/python3\.\d+$|/libpython3[^/]*$|/lib-dynload/[^/]*$"
)
"""Libraries that choose by what is said here alone, or again when they are used (libstdc++)."""

_CPUID = b"\x0f\xa2"
_CPU_MODEL = b"\0__cpu_model\0"
"""A variable of libgcc_s with what CPUID said."""
_AVX, _PCLMULQDQ = (_FIRST, 1 << 60), (_FIRST, 1 << 33)
_AVX2, _BMI2 = (_STRUCTURED, 1 << 37), (_STRUCTURED, 1 << 40)
_CHOOSING = {
    "_blake2": (_AVX, _AVX2),
    "_hmac": (_AVX, _AVX2),
    "_lzma": (_PCLMULQDQ,),
    "_zstd": (_BMI2,),
}
"""Modules of CPython that keep what they, or their library, find of a feature (`_blake2` and
`_hmac` from 3.14 on); no variable stops them."""

_OF_LIBC = {(0, 2): (_FIRST, 32), (1, 1): (_STRUCTURED, 32), (2, 2): (_MORE, 0)}
"""Registers as the dynamic linker lists them (leaf, register), and where they are in a fact."""
_CHOSEN_BY = {(0, 2): 0x1040_1000, (1, 1): 0xD003_0928, (2, 2): 0x0001_0020}
"""By which it chooses functions: AVX, MOVBE, FMA; AVX512, RTM, BMI, AVX2; LZCNT, FMA4."""

_NOT_SAVED = ((1 << 64) - 1) & ~0xE_00EF
"""Of the set of registers: those that the dynamic linker never saves (PKRU, say)."""

_TIMEOUT_S = 60.0


def variables(level: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What a builder has in its environment, and programs do not, to be held to a level.

    Raises:
        UsageError: one of them is in the environment, too.
    """
    if level not in _FEATURES:
        return {}
    first, structured = _FEATURES[level][_FIRST], _FEATURES[level].get(_STRUCTURED, (0, 0))
    masks = (~(first[0] << 32 | 0xFFFF_FFFF), ~structured[0], -1, -1, -1)
    above = [name for one in _NUMPY if one not in _upto(level) for name in _NUMPY[one]]
    found = {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in _LIBC[level]),
        "NPY_DISABLE_CPU_FEATURES": ",".join((*above, *_NUMPY_REST)),
        "OPENBLAS_CORETYPE": _CORES[level],
        "OPENSSL_ia32cap": ":".join(f"~0x{mask & (1 << 64) - 1:016x}" for mask in masks),
    }
    for name in found:
        if name in environ:
            raise UsageError(f"--cpu sets {name} itself", hint=f"unset {name}")
    return found


def rules(
    level: str, found: Sequence[tuple[int, int]], modules: Iterable[str]
) -> tuple[tuple[int, int], ...]:
    """What an image asks of a machine: rule and value of each fact.

    Args:
        level: one of `LEVELS`; "" for a processor like that of the build.
        found: the same of the machine of the build.
        modules: that the image has loaded.
    """
    needed = list(found)
    if level:
        needed[_MODEL] = (_ANY, 0)
    if level not in _FEATURES:
        return tuple(needed)
    needed[_MAKER] = (_ANY, 0)
    for i in (_FIRST, _STRUCTURED, _MORE, _LAST):
        needed[i] = (_HAS, _value(level, i))
    if level == "x86-64-v2":  # the dynamic linker saves no register that came later
        needed[_REGISTERS] = needed[_STATE] = (_ANY, 0)
    else:  # it has room for those of the build
        needed[_REGISTERS] = (_WITHIN, found[_REGISTERS][1] | _NOT_SAVED)
        needed[_STATE] = (_HAS, found[_STATE][1] >> 32 << 32)
    for i, bit in {one for name in modules for one in _CHOOSING.get(name, ())}:
        needed[i] = (_HAS, needed[i][1] | found[i][1] & bit)
    return tuple(needed)


def _value(level: str, fact: int) -> int:
    high, low = _FEATURES[level].get(fact, (0, 0))
    return high << 32 | low


def require_machine(level: str, found: Sequence[tuple[int, int]]) -> None:
    """Raise ImageFailed where an image of a level cannot be made."""
    if level and len(found) <= _LAST:
        raise ImageFailed("there are no levels of processors on this machine", hint="omit --cpu")
    for i in _FEATURES.get(level, {}):
        if _value(level, i) & ~found[i][1]:
            raise ImageFailed(f"this processor is below {level}", hint="build on another one")


def numpy_chosen() -> tuple[str, ...]:
    """Features that numpy has chosen functions for, where it is loaded. In the builder."""
    numpy = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get(
        "numpy.core._multiarray_umath"
    )
    if numpy is None:
        return ()
    has: Mapping[str, bool] = numpy.__cpu_features__
    return tuple(name for name in numpy.__cpu_dispatch__ if has.get(name))


def require_numpy_held(level: str, chosen: Iterable[str]) -> None:
    """Raise ImageFailed if numpy has chosen functions above a level."""
    if level not in _FEATURES:
        return
    allowed = {name for one in _upto(level) for name in _NUMPY[one]}
    above = [name for name in chosen if name not in allowed]
    if above:
        raise ImageFailed(f"numpy uses {', '.join(above)}, which is above {level}")


def _upto(level: str) -> list[str]:
    return list(_NUMPY)[: list(_NUMPY).index(level) + 1]


def require_held(level: str, libraries: Iterable[str], trusted: Iterable[str]) -> None:
    """Raise ImageFailed if a library may have chosen functions above a level.

    Args:
        libraries: paths of those in the image.
        trusted: names of files that are known not to.
    """
    if level not in _FEATURES:
        return
    known = frozenset(trusted)
    asking = [
        path
        for path in libraries
        if not _is_covered(path) and Path(path).name not in known and _asks(Path(path))
    ]
    if asking:
        raise ImageFailed(
            f"these may have chosen functions above {level}: {', '.join(asking)}",
            hint="do not preload what loads them; --cpu-trust NAME for one that does not choose",
        )
    for path in libraries:
        if "/ld-linux-" in path:
            _require_libc_held(level, path)


def _is_covered(path: str) -> bool:
    if path == native().__file__:  # it chooses nothing; it may have the bytes by chance
        return True
    is_of_numpy = "-packages/numpy/" in path and path.endswith(".so")
    return is_of_numpy or _COVERED.search(path) is not None


def _asks(path: Path) -> bool:
    return any(_CPUID in part for part in code(path)) or _CPU_MODEL in path.read_bytes()


def _require_libc_held(level: str, loader: str) -> None:
    """The dynamic linker finds the features for the C library: it lists those that are in use."""
    done = subprocess.run(
        [loader, "--list-diagnostics"],
        env=variables(level, {}),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        text=True,
        errors="replace",
    )
    listed = re.findall(
        r"^x86\.cpu_features\.features\[(\w+)\]\.active\[(\w+)\]=(\w+)$", done.stdout, re.M
    )
    active = {(int(leaf, 16), int(of, 16)): int(bits, 16) for leaf, of, bits in listed}
    for place, (fact, shift) in _OF_LIBC.items():
        allowed = _value(level, fact) >> shift
        if active.get(place, ~0) & _CHOSEN_BY[place] & ~allowed:
            raise ImageFailed(
                f"the C library may have chosen functions above {level}",
                hint="--cpu needs glibc 2.33 or later",
            )
