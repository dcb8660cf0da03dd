"""Which variables come into every image: by name, and the names are the interpreter's own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pasture_image.inside.start_variables import BEGINNINGS, NAMES, always_read

_NAME = re.compile(rb"(?<![A-Za-z_0-9])PYTHON[A-Z_0-9]+(?![A-Za-z0-9_])")
NO_VARIABLES = {"PYTHON_CLASSMETHOD"}
"""Text in the binary that is another thing."""


@pytest.mark.interpreter
def test_each_variable_that_stands_in_the_interpreters_binary_is_known() -> None:
    """A name that a later version adds fails here, before an image differs from python by it."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split()[-1] for line in lines}
    own = [path for path in paths if "python3" in path.rpartition("/")[2]]
    assert own, (sys.executable, paths)
    found = {name.decode() for path in own for name in _NAME.findall(Path(path).read_bytes())}
    assert "PYTHONHASHSEED" in found
    unknown = {name for name in found - NAMES - NO_VARIABLES if not name.startswith(BEGINNINGS)}
    assert not unknown


SECRETS = (
    *("PYTHON_KEYRING_PASS", "PYTHONANYWHERE_TOKEN", "LD_SDK_KEY", "LDAP_PASSWORD", "LC_TOKEN"),
    *("OPENSSL_KEY_PASS", "MKL_LICENSE_TOKEN", "PYTHON_JIT_AUTH", "COV_CORE_SECRET"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_variable_that_begins_as_one_of_the_start_is_kept_out(name: str) -> None:
    environ = {name: "s3cr3t-value", "PYTHONPATH": "/a", "OMP_NUM_THREADS": "2"}
    found = {key: value for key, value in always_read(environ).items() if value is not None}
    assert found == {"PYTHONPATH": "/a", "OMP_NUM_THREADS": "2"}
