"""What `pasture top` shows, from readings made of numbers."""

from pathlib import Path

import pytest

from pasture.proc.cgroup import Usage
from pasture.proc.smaps import Memory
from pasture.scoreboard.figures import Counts
from pasture.scoreboard.layout import Entry
from pasture_tools.top.table import COLUMNS, as_document, dangers, limits, ordered, plain, summary
from pasture_tools.top.watch import Limits, Reading, Row, row

MB = 1_000_000


def memory(private: int, shared: int = 50 * MB) -> Memory:
    return Memory(private + shared, private + shared // 2, 0, private, shared)


def example(pid: int, private: int, *, is_master: bool = False, faults: float | None = None) -> Row:
    return Row(pid, is_master, memory(private), None, faults)


MASTER = example(10, 1 * MB, is_master=True)
USED = Usage(512 * MB, 400 * MB, 90 * MB, 10 * MB, Path("/sys/fs/cgroup/web.service"))
ROWS = (MASTER, example(11, 5 * MB, faults=3.0), example(12, 9 * MB, faults=1.0))


@pytest.mark.parametrize(("key", "first"), [("v", 12), ("f", 11), ("i", 11), ("p", 12), ("g", 11)])
def test_workers_are_ordered_by_a_column_and_the_master_stays_on_top(key: str, first: int) -> None:
    assert [r.pid for r in ordered(ROWS, key)][:2] == [10, first]


def test_no_two_columns_are_sorted_by_the_same_key() -> None:
    keys = [column.key for column in COLUMNS if column.key]
    assert len(set(keys)) == len(keys)


def test_the_summary_counts_workers_and_not_the_master_or_a_mold() -> None:
    mold = Row(13, False, memory(90 * MB), None, None, Entry(13, 1, "mold"))
    assert summary((*ROWS, mold)) == "205 MB in all, 2 workers, 7.0 MB private each"
    mule = Row(14, False, memory(90 * MB), None, None, Entry(14, None, "mule"))
    router = Row(15, False, memory(90 * MB), None, None, without_entry="other")
    assert summary((*ROWS, mule, router)).endswith("2 workers, 7.0 MB private each")
    assert summary((MASTER,)) == "26.0 MB in all, 0 workers"


def test_what_endangers_the_server_is_below_the_summary_hazards_last() -> None:
    marks = (10 * MB, 12 * MB, 16 * MB)
    entry = Entry(12, counts=Counts(requests=256), says_requests=True, marks=marks)
    leaks = Row(12, False, memory(MB), None, None, entry)
    locked = Row(11, False, memory(MB), None, None, entry, is_locked=True)
    found = Limits(USED, hazards=("one", "two", "three"))
    lines = dangers((MASTER, locked, leaks), found).splitlines()
    assert lines[0] == "worker 11 waits for a lock: pasture doctor --hung 11"
    assert lines[1].startswith("worker 11 (and 1 more) grows by 31.2 KB a request since request 64")
    assert lines[2:] == ["hazard: one", "hazard: two", "and 1 more, which pasture doctor names"]
    assert as_document(10, (MASTER, locked), found)["dangers"][0] == lines[0]
    assert dangers(ROWS, Limits(USED)) == ""
    assert dangers(ROWS, Limits(USED, hazards=("one",), dead="9 MB")) == "9 MB\nhazard: one"


def test_figures_that_are_not_known_yet_leave_their_cells_empty() -> None:
    text = plain([example(11, 5 * MB)], Limits()).splitlines()
    assert text[1].split() == ["11", "worker", "30.0", "MB", "5.0", "MB", "50.0", "MB"]
    assert len(text[0]) == len(text[1])


def test_requests_and_generation_come_from_the_scoreboard() -> None:
    entry = Entry(11, 2, "worker", Counts(requests=1500), says_requests=True)
    shown = Row(11, False, memory(MB), 250_000.0, 7.0, entry)
    line = plain([shown], Limits()).splitlines()[1].split()
    assert line[2] == "2" and line[-1] == "1,500" and "+0.25" in line
    [process] = as_document(10, [shown], Limits())["processes"]
    assert (process["requests"], process["generation"], process["role"]) == (1500, 2, "worker")


def test_a_server_that_does_not_count_requests_is_not_said_to_have_had_none() -> None:
    assert Row(11, False, memory(MB), None, None, Entry(11)).requests is None


def test_the_figure_that_counts_is_named_for_each_limit_that_is_set() -> None:
    [group] = limits(Limits(USED)).splitlines()
    assert group.startswith("limit of 512 MB in /sys/fs/cgroup/web.service: its working set counts")
    assert "310 MB now" in group
    none, max_uss = limits(Limits(None, "200M")).splitlines()
    assert none.startswith("no cgroup limit: the PSS of all processes counts")
    assert max_uss == "--max-uss 200M: the private memory of each worker counts"
    assert plain(ROWS, Limits(USED)).splitlines()[-1] == group


def test_the_snapshot_has_the_limit_in_bytes() -> None:
    document = as_document(10, ROWS, Limits(USED, "200M"))
    assert document["cgroup"]["working_set_bytes"] == 310 * MB
    assert document["max_uss"] == "200M"
    assert as_document(10, ROWS, Limits())["cgroup"] is None


def reading(seconds: float, private: int, faults: int = 0) -> Reading:
    return Reading(7, seconds, False, memory(private), faults)


def test_growth_is_of_the_last_minute_and_absent_at_first() -> None:
    assert row([reading(0, MB)]).growth_bytes_a_minute is None
    assert row([reading(0, MB), reading(4, 2 * MB)]).growth_bytes_a_minute is None
    grown = row([reading(0, 90 * MB), reading(100, 1 * MB), reading(130, 4 * MB)])
    assert grown.growth_bytes_a_minute == 6 * MB


def test_faults_are_a_rate_since_the_reading_before() -> None:
    found = row([reading(0, MB, 0), reading(10, MB, 900), reading(12, MB, 1000)])
    assert found.faults_a_second == 50
