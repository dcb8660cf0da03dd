"""Objects in `sys.modules` that say by `__class__` that they are modules, as cffi's `Lib` does."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pasture
from pasture.serving import spawned

pytestmark = pytest.mark.once


class Lib:
    """One without a dictionary."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ModuleType


def test_a_false_module_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    lib = Lib()
    assert isinstance(lib, ModuleType) and type(lib) is Lib
    monkeypatch.setitem(sys.modules, "false_module", lib)
    assert __file__ in spawned._loaded_files()


def test_the_type_of_a_module_is_asked_for_and_not_its_class() -> None:
    source = Path(pasture.__file__).parent
    asked = re.compile(r"isinstance\([^()]*\bModuleType\b")
    assert not [path.name for path in source.rglob("*.py") if asked.search(path.read_text())]
