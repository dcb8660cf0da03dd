"""`pasture explain` on real parents and workers, with truths that are known without it."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil
import pytest
from running import TIMEOUT_S

pytest.importorskip("numpy")

from pasture.errors import ProcessEnded, UsageError
from pasture.proc.smaps import read_memory
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explain import explain
from pasture_tools.explain.sources import find_pair
from pasture_tools.explain.table import held

pytestmark = pytest.mark.interpreter

PROGRAM = Path(__file__).parent.parent / "programs" / "dirty_pages.py"
COUNT = 400
CAUSES = [
    "reference count",
    "GC header",
    "hole reused",
    "pool header",
    "dict keys",
    "dict values",
    "list storage",
    "set storage",
    "object field",
    "weak-reference list",
    "string hash",
    "C allocation",
    "stack",
    "new memory",
    "written and restored",
]
chromium = shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def dirtying(cause, snapshot=None, count=COUNT):
    environ = {k: v for k, v in os.environ.items() if k != "PASTURE_SNAPSHOT"}
    if snapshot:
        environ["PASTURE_SNAPSHOT"] = str(snapshot)
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), cause, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    )
    try:
        line = process.stdout.readline()
        assert line, f"the program ended with status {process.wait()}"
        yield json.loads(line)
    finally:
        process.communicate()


def pages_of(found, label):
    return next((share.os_pages for cause, share in found.causes if cause.label == label), 0)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    return tmp_path_factory.mktemp("snapshot") / "snapshot"


@pytest.fixture(scope="module")
def noise(snapshot):
    """What a worker that dirties nothing is explained by."""
    with dirtying("nothing", snapshot) as said:
        return explain(said["parent"], said["worker"], snapshot)


@pytest.mark.parametrize("cause", CAUSES)
def test_pages_dirtied_for_a_known_cause_are_explained_by_it(cause, snapshot, noise):
    with dirtying(cause, snapshot) as said:
        found = explain(said["parent"], said["worker"], snapshot)
    true, explained = said["os_pages"], pages_of(found, cause) - pages_of(noise, cause)
    assert true > COUNT / 2
    # Noise differs from run to run by a few pages.
    assert abs(explained - true) <= 0.02 * true + 15
    assert pages_of(found, "unknown") == 0


def test_bytes_of_all_causes_add_up_to_what_the_kernel_counts_as_private(snapshot):
    # Much, since pages of libraries become shared and private as other programs come and go.
    with dirtying("new memory", snapshot, count=8000) as said:
        found = explain(said["parent"], said["worker"], snapshot)
    assert found.explained_bytes == pytest.approx(found.private_bytes, rel=0.02)
    assert found.os_pages * 4096 == pytest.approx(found.explained_bytes)


def test_pages_with_one_cause_are_no_more_than_pages_with_it(noise):
    for cause, share in noise.causes:
        assert 0 <= share.only_os_pages <= share.os_pages
        if cause in (Cause.NEW_MEMORY, Cause.RESTORED, Cause.FILE_PAGE):
            assert share.only_os_pages == share.os_pages


def test_objects_in_memory_that_the_parent_never_had_are_reported_by_their_type(snapshot):
    with dirtying("new objects", snapshot) as said:
        found = explain(said["parent"], said["worker"], snapshot)
    new = {str(label): share for cause, label, share in found.fields if cause is Cause.NEW_MEMORY}
    assert new["__main__.Lamb"].os_pages == pytest.approx(said["os_pages"], rel=0.02)
    assert new["__main__.Lamb"].bytes <= said["os_pages"] * 4096
    assert sum(share.bytes for share in new.values()) == pytest.approx(
        found.cause(Cause.NEW_MEMORY).bytes
    )


def test_without_a_snapshot_objects_are_recognised_and_the_lack_is_named():
    with dirtying("object field") as said:
        found = explain(said["parent"], said["worker"])
    assert found.snapshot is None
    assert any("no heap snapshot" in sentence for sentence in found.missing)
    fields = {(str(label)): share.os_pages for _, label, share in found.fields}
    assert fields["Wide.slot_300"] >= COUNT
    assert found.owners == ()


def test_an_owner_is_named_by_its_way_from_a_module(snapshot):
    with dirtying("object field", snapshot) as said:
        found = explain(said["parent"], said["worker"], snapshot)
    assert any(owner.type == "__main__.Wide" for owner in found.owners)


HOLDS_STRINGS = """
import json, os, sys
from pathlib import Path
import numpy
import pasture
names = numpy.array([f"a name of some length {i}" for i in range(40_000)], dtype=object)
pasture.seal("stock", snapshot=Path(sys.argv[1]))
read, write = os.pipe()
if (pid := os.fork()) == 0:
    sum(len(name) for name in names)
    os.write(write, b".")
    sys.stdin.read()
    os._exit(0)
os.read(read, 1)
print(json.dumps([os.getpid(), pid]), flush=True)
sys.stdin.read()
os.waitpid(pid, 0)
"""


def test_strings_of_a_numpy_array_that_were_only_read_are_named_by_the_array(snapshot):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_STRINGS, str(snapshot)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        parent, worker = json.loads(process.stdout.readline())
        found = explain(parent, worker, snapshot)
    finally:
        process.communicate()
    [largest, *_] = found.holders
    assert largest.restored
    assert (largest.type, largest.container) == ("str", "numpy.ndarray")
    assert largest.path == "__main__.names"
    assert largest.os_pages == pytest.approx(40_000 * 80 / 4096, rel=0.3)
    assert held(largest).endswith(
        "str held by a numpy array in __main__.names, written and restored"
    )


def test_a_snapshot_of_another_process_is_refused(snapshot, noise):
    with dirtying("nothing") as said, pytest.raises(UsageError, match="snapshot of process"):
        explain(said["parent"], said["worker"], snapshot)


def test_a_process_that_is_gone_is_named():
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ProcessEnded, match=str(process.pid)):
        find_pair(process.pid)


def test_a_worker_killed_meanwhile_is_named():
    with dirtying("nothing") as said:
        os.kill(said["worker"], 9)
        time.sleep(0.1)
        with pytest.raises(ProcessEnded, match="ended during the reading"):
            explain(said["parent"], said["worker"])


def test_a_process_without_workers_is_refused():
    words = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline()
        with pytest.raises(UsageError, match="shares its memory with no process"):
            find_pair(process.pid)
        process.stdin.write(b"\n")


@pytest.mark.once
def test_no_one_is_stopped_and_the_server_answers_meanwhile(serve, tmp_path):
    server = serve(workers=2, env={"PASTURE_SNAPSHOT": str(tmp_path / "snapshot")})
    for _ in range(20):
        server.get("/who")
    [worker, *_] = server.workers()
    command = [sys.executable, "-m", "pasture", "explain", str(worker)]
    report = tmp_path / "report.json"
    running = subprocess.Popen([*command, "--json", str(report)], stdout=subprocess.PIPE)
    while running.poll() is None:
        assert server.get("/who")["pid"] in server.workers()
        time.sleep(0.02)
    output = running.stdout.read().decode()
    assert running.returncode == 0, output
    assert "no process was stopped" in output
    document = json.loads(report.read_text())
    assert document["worker"] == worker and document["parent"] == server.process.pid
    assert document["explained_bytes"] == pytest.approx(document["private_bytes"], rel=0.02)
    assert document["causes"]["unknown"]["os_pages"] <= 0.1 * document["os_pages"]
    assert document["policy"] == "seal"


def test_explaining_makes_nothing_private():
    with dirtying("nothing") as said:
        before = steady_private_bytes(said["worker"], said["parent"])
        explain(said["parent"], said["worker"])
        assert read_memory(said["worker"]).private_dirty_bytes <= before


def test_a_second_look_says_the_same_since_the_first_left_no_page_in_the_parent(snapshot):
    with dirtying("new objects", snapshot) as said:
        steady_private_bytes(said["worker"], said["parent"])
        first, second = (explain(said["parent"], said["worker"], snapshot) for _ in range(2))
    pages = [
        {c: s.os_pages for c, s in found.causes if c is not Cause.FILE_PAGE}
        for found in (first, second)
    ]
    # A page at the end of the heap may change its cause: its words change as threads wait.
    before, after = pages
    moved = sum(abs(before.get(c, 0) - after.get(c, 0)) for c in before.keys() | after.keys())
    assert moved <= 4, pages


def steady_private_bytes(worker, parent):
    """Once both wait and nothing has changed for a while: the parent's writes count too."""
    deadline, before = time.monotonic() + TIMEOUT_S, -1
    while time.monotonic() < deadline:
        now = read_memory(worker).private_dirty_bytes
        states = {psutil.Process(pid).status() for pid in (worker, parent)}
        if now == before and states == {psutil.STATUS_SLEEPING}:
            return now
        before = now
        time.sleep(0.2)
    raise AssertionError("the processes do not come to rest")


def records_faults(pid):
    """Whether a process has counters of the kernel open."""
    try:
        return any("perf_event" in str(f.readlink()) for f in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason="sampling faults may need root")
def test_recorded_faults_name_functions_and_what_they_wrote(serve, tmp_path):
    # Workers come and go, so that there are first writes all the time.
    server = serve("--max-requests", "2", workers=2, options=("--policy", "stock"))
    report = tmp_path / "report.json"
    command = [*(sys.executable, "-m", "pasture", "explain"), str(server.process.pid)]
    running = subprocess.Popen(
        [*command, "--record", "4", "--json", str(report)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while running.poll() is None:
        if records_faults(running.pid):
            server.get("/collect")
        time.sleep(0.05)  # before, it starts; after, it looks at a worker that stays
    output, errors = (stream.read().decode() for stream in (running.stdout, running.stderr))
    assert running.returncode == 0, errors
    assert "recorded 4.00 s" in output
    recording = json.loads(report.read_text())["recording"]
    assert recording["faults"] > 100
    assert len(recording["workers"]) > 1
    causes = {writer["cause"] for writer in recording["writers"]}
    assert causes & {Cause.GC_HEADER.label, Cause.REFERENCE_COUNT.label}, output


@pytest.mark.once
@pytest.mark.skipif(chromium is None, reason="no Chromium on this machine")
def test_the_page_draws_its_map_in_a_browser(noise, tmp_path):
    pytest.importorskip("plotly")
    from pasture_tools.explain.html import render_html

    page = tmp_path / "page.html"
    page.write_text(render_html(noise, datetime(2026, 1, 2)))
    done = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=10000"),
            *("--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.count('class="slice') > len(noise.causes)
    for cause, _ in noise.causes:
        assert cause.label in done.stdout
    assert "https://" not in "".join(
        part.split('"')[1] for part in done.stdout.split(" src=")[1:] if part.startswith('"')
    )
