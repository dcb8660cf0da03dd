"""What observes keeps nothing alive: an object that dies without pasture dies with pasture.

Red where a recorder has a strong reference: a connection of sqlite3, which its cache of statements
refers to, would stay open across the fork.
"""

import sys
from pathlib import Path

import pytest
from running import completed

PROGRAM = Path(__file__).parent.parent / "programs" / "observed_objects.py"


@pytest.mark.parametrize("how", ["plain", "observed"])
def test_no_recorder_keeps_an_object_alive(how):
    words = [sys.executable, str(PROGRAM), how]
    done = completed(words)
    assert (done.stdout, done.stderr) == ("\n", "")
