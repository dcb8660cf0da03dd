"""The coverage tool, on all the time or turned on late: its report must be right."""

import sys

import pytest

CORES = {"ctrace": "CTracer", "sysmon": "SysMonitor"}

MEASURED = """
def chosen(way):
    if way == "before":
        result = [1]
    elif way == "sealed":
        result = [2]
    elif way == "child":
        result = [3]
    else:
        result = [4]
    return result
"""

MEASURE = f"""
import coverage, pathlib
pathlib.Path("measured.py").write_text({MEASURED!r})
sys.path.insert(0, "")
def start():
    global tool
    tool = coverage.Coverage(data_file=None, config_file=False, include=["*/measured.py"])
    tool.set_option("run:core", CORE)
    tool.start()
    assert tool._collector.tracer_name() == NAME
def missing():
    tool.stop()
    found = tool.analysis("measured.py")[2]
    tool.start()
    return found
"""

# With the lines that are missing in the child, and in the parent.
PLACES = {
    "before": ("start(); import measured; measured.chosen('before')", "[10]\n[7, 8, 10]\n"),
    "after the code": (
        "import measured; measured.chosen('before'); start()",
        "[2, 4, 10]\n[2, 4, 7, 8, 10]\n",
    ),
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sealed", [False, True])
def test_lines_that_run_behind_the_seal_are_reported(run_program, generators, core, place, sealed):
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is new in CPython 3.12")
    out = run_program(
        f"""
CORE, NAME = {core!r}, {CORES[core]!r}
{MEASURE}
{PLACES[place][0]}
if {sealed}: assert pasture.seal().sealed
measured.chosen("sealed")
def child():
    measured.chosen("child")
    return missing()
in_child(child)
if {sealed}:
    pasture.collect(); pasture.collect(frozen=True)
    assert pasture.seal().sealed
print(missing())
""",
        path=[generators("coverage")],
    )
    assert out == PLACES[place][1]
