"""`pasture top` on real servers, and its screen."""

import asyncio
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from running import pasture

from pasture.proc.smaps import Memory
from pasture.scoreboard.figures import Counts
from pasture.scoreboard.layout import Entry
from pasture_tools.top import table as text_table
from pasture_tools.top.watch import Limits, Row, Watch

MB = 1_000_000
SCREEN = Path(__file__).with_name("top_screen.txt")


def memory(private, shared=50 * MB):
    return Memory(private + shared, private + shared // 2, 0, private, shared)


def example(pid, private, *, is_master=False, faults=None):
    return Row(pid, is_master, memory(private), None, faults)


ROWS = (
    example(10, 1 * MB, is_master=True),
    example(11, 5 * MB, faults=3.0),
    example(12, 9 * MB, faults=1.0),
)


def test_one_table_as_plain_text_has_a_line_for_each_process(herd):
    done = pasture("top", herd.pid, "--once")
    assert done.returncode == 0, done.stderr
    state, *lines = done.stdout.splitlines()
    assert state == "sealed"
    assert lines[0].split() == [column.title for column in text_table.COLUMNS]
    shown = {int(line.split()[0]): line.split()[1] for line in lines[1:4]}
    assert shown == {
        herd.pid: "master",
        **dict.fromkeys(herd.workers(), "worker"),
    }
    assert "2 workers" in lines[4]
    assert "counts" in lines[5]  # with a limit of the group that the test runs in, or without


@pytest.mark.once
def test_a_worker_leads_to_its_master(herd):
    assert f"{herd.pid}  master" in pasture("top", herd.workers()[-1], "--once").stdout


@pytest.mark.once
def test_a_worker_that_collects_a_stock_heap_is_seen_to_grow_and_to_fault(serve):
    server = serve(workers=1, options=("--policy", "stock"))
    watch = Watch(server.process.pid)
    before = {r.pid: r for r in watch.look()}
    server.get("/collect")
    after = {r.pid: r for r in watch.look()}
    [worker] = server.workers()
    assert after[worker].memory.private_bytes > before[worker].memory.private_bytes + 5 * MB
    assert after[worker].faults_a_second > after[server.process.pid].faults_a_second


@pytest.mark.once
def test_requests_of_a_server_run_by_pasture_are_shown(serve):
    server = serve(workers=1)
    for _ in range(7):
        server.get("/who")
    [worker] = server.workers()
    look = Watch(server.process.pid).look
    server.wait_for(lambda: look()[1].requests == 7, "counting 7 requests")
    master, row_of_worker = look()
    assert (master.requests, row_of_worker.pid) == (None, worker)
    assert row_of_worker.generation is None
    assert "       7\n" in text_table.plain([row_of_worker], Limits())


@pytest.mark.once
def test_the_screen_shows_sorts_and_writes_snapshots(tmp_path):
    pytest.importorskip("textual")
    from textual.widgets import DataTable, Static

    from pasture_tools.top.screen import TopApp

    async def drive():
        app = TopApp(10, lambda: ROWS, interval_s=60, folder=tmp_path)
        async with app.run_test(size=(150, 24)) as pilot:
            table = app.query_one(DataTable)
            pids = lambda: [table.get_row_at(i)[0] for i in range(table.row_count)]  # noqa: E731
            assert pids() == ["10", "12", "11"]
            await pilot.press("f")
            assert pids() == ["10", "11", "12"]
            summary = str(app.query_one("#summary", Static).render())
            assert summary.splitlines() == [
                text_table.summary(ROWS),
                text_table.limits(Limits()),
            ]
            await pilot.press("s")
            await pilot.pause()
            return app.export_screenshot()

    picture = asyncio.run(drive())
    for text in ("private", "growth/min", "faults/s", "9.0&#160;MB", "snapshot"):
        assert text in picture
    [snapshot] = tmp_path.glob("pasture-top-*.json")
    document = json.loads(snapshot.read_text())
    assert document["master"] == 10
    assert [p["private_bytes"] for p in document["processes"]] == [1 * MB, 5 * MB, 9 * MB]


CELL = re.compile(
    r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+"[^>]*>([^<]*)</text>'
)


def text_of(picture):
    """The characters of a screen, from the picture that Textual makes of it."""
    lines = {}
    for x, y, text in CELL.findall(picture):
        cells = lines.setdefault(float(y), {})
        for i, character in enumerate(html.unescape(text).rstrip("\n").replace("\xa0", " ")):
            cells[round(float(x) / 12.2) + i] = character
    return "".join(
        "".join(cells.get(i, " ") for i in range(max(cells, default=-1) + 1)).rstrip() + "\n"
        for _, cells in sorted(lines.items())
    )


@pytest.mark.once
def test_the_screen_is_that_of_the_reference():
    pytest.importorskip("textual")
    from pasture_tools.top.screen import TopApp

    shown = replace(
        ROWS[2],
        growth_bytes_a_minute=1.5 * MB,
        faults_a_second=2500.0,
        shown=Entry(12, 2, "mold", Counts(requests=1200), says_requests=True),
    )

    async def drive():
        app = TopApp(10, lambda: (*ROWS[:2], shown), interval_s=60)
        async with app.run_test(size=(140, 9)) as pilot:
            await pilot.pause()
            by_private = text_of(app.export_screenshot())
            await pilot.press("i")
            await pilot.pause()
            return by_private + text_of(app.export_screenshot())

    seen = asyncio.run(drive())
    assert seen == SCREEN.read_text(), f"the screen is another one:\n{seen}"


@pytest.mark.once
def test_the_screen_closes_with_the_reason_when_the_master_ends(tmp_path):
    pytest.importorskip("textual")
    from pasture.errors import ProcessEnded
    from pasture_tools.top.screen import TopApp

    def gone():
        raise ProcessEnded("process 10 has ended")

    app = TopApp(10, gone, interval_s=60, folder=tmp_path)

    async def drive():
        async with app.run_test():
            pass

    asyncio.run(drive())
    assert isinstance(app.error, ProcessEnded)
