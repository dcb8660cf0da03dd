"""An unpacked interpreter works as an installed one does; runs on such interpreters only."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(sys.base_prefix).parent
pytestmark = pytest.mark.skipif(
    not (ROOT / "version").exists() or Path(sys.base_prefix).name != "usr",
    reason="this interpreter was not unpacked by tools/interpreters",
)


@pytest.mark.parametrize(
    "module", ["bz2", "ctypes", "curses", "decimal", "lzma", "readline", "sqlite3", "ssl", "uuid"]
)
def test_modules_over_c_libraries_load_those_of_the_root(module: str) -> None:
    program = f"import {module}; print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    libraries = {line.split()[-1] for line in done.stdout.splitlines() if ".so" in line}
    strangers = {path for path in libraries if not path.startswith(str(ROOT))}
    assert {Path(path).name for path in libraries} >= {"libc.so.6", "libm.so.6"}
    assert not {path for path in strangers if "site-packages" not in path}
