"""For tests of the commands in tools/, of benchmarks and of the harnesses around other tests."""

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

LoadTool = Callable[[str], ModuleType]

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def load_tool(monkeypatch: pytest.MonkeyPatch) -> LoadTool:
    """Import a command of tools/, which has no suffix, by its name: again in each test."""

    def load(name: str) -> ModuleType:
        loader = importlib.machinery.SourceFileLoader(f"tool_{name}", str(TOOLS / name))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, loader.name, module)
        loader.exec_module(module)
        return module

    return load
