"""`pasture explain` as a user without privileges: his own processes, and another's."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from running import completed, pasture

pytest.importorskip("numpy")


PROGRAMS = Path(__file__).parent.parent / "programs"
UNPRIVILEGED = (sys.executable, str(PROGRAMS / "unprivileged.py"))
COUNT = 200

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="all other tests run without root then"),
    pytest.mark.skipif(sys.version_info[:2] != (3, 14), reason="one interpreter is enough"),
]


@contextmanager
def dirtying(*command, snapshot):
    process = subprocess.Popen(
        [*command, str(PROGRAMS / "dirty_pages.py"), "object field", str(COUNT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PASTURE_SNAPSHOT": str(snapshot)},
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.communicate()


def explain_unprivileged(worker, *options):
    command = [*UNPRIVILEGED, "-m", "pasture", "explain", str(worker), *options]
    return completed(command)


@pytest.fixture
def folder():
    """One that everybody may write to; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def test_pages_of_the_same_user_are_explained_and_what_a_recording_misses_is_named(folder):
    document = folder / "found.json"
    with dirtying(*UNPRIVILEGED, snapshot=folder / "snapshot") as said:
        assert f"Uid:\t{65534}" in Path(f"/proc/{said['worker']}/status").read_text()
        done = explain_unprivileged(said["worker"], "--record", "0.2", "--json", str(document))
    assert done.returncode == 0, done.stderr
    found = json.loads(document.read_text())
    [field] = [
        one for one in found["fields"] if one["type"] + "." + one["field"] == "Wide.slot_300"
    ]
    assert field["os_pages"] == pytest.approx(said["os_pages"], rel=0.02)
    assert found["explained_bytes"] == pytest.approx(found["private_bytes"], rel=0.02)
    assert any(owner["type"] == "__main__.Wide" for owner in found["owners"])
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 1:
        assert "perf_event_paranoid" in done.stdout


def test_processes_of_another_user_are_refused_with_the_way_to_fix_it(folder):
    with dirtying(sys.executable, snapshot=folder / "snapshot") as said:
        done = explain_unprivileged(said["worker"])
    assert done.returncode == 9
    assert "not allowed" in done.stderr
    assert "root" in done.stderr


def explain(worker, *options):
    return pasture("explain", worker, *options)


def garbage(path):
    path.write_bytes(b"\x1b[31m garbage")


REPLACED = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/shadow"),
    "garbage": garbage,
}


def test_root_is_not_held_up_or_misled_by_the_snapshot_of_another_user(folder):
    snapshot = folder / "snapshot"
    with dirtying(*UNPRIVILEGED, snapshot=snapshot) as said:
        whole = explain(said["worker"], "--json", str(folder / "with.json"))
        assert "no heap snapshot" not in whole.stdout
        os.chown(snapshot, 12345, 12345)
        assert_is_noted(said["worker"], snapshot, "of a third user")
        for kind, replace in REPLACED.items():
            snapshot.unlink()
            replace(snapshot)
            os.chown(snapshot, 65534, 65534, follow_symlinks=False)
            assert_is_noted(said["worker"], snapshot, kind)


def assert_is_noted(worker, snapshot, kind):
    done, asked = explain(worker), explain(worker, "--snapshot", str(snapshot))
    assert done.returncode == 0, (kind, done.stderr)
    noted = (f"note: cannot read {snapshot}", "is not a heap snapshot")
    assert any(words in done.stdout for words in noted), (kind, done.stdout)
    assert asked.returncode == 2 and "Traceback" not in asked.stderr, (kind, asked.stderr)


def test_root_writes_no_report_where_another_user_can_put_a_link(folder):
    (folder / "his").mkdir()
    (folder / "victim").write_text("precious")
    (folder / "his" / "found.json").symlink_to(folder / "victim")
    os.chown(folder / "his", 65534, 65534)
    with dirtying(sys.executable, snapshot=folder / "snapshot") as said:
        done = explain(said["worker"], "--json", str(folder / "his" / "found.json"))
    assert done.returncode == 2 and "belongs to user 65534" in done.stderr
    assert (folder / "victim").read_text() == "precious"


def test_a_snapshot_can_be_read_by_its_user_alone(folder):
    with dirtying(sys.executable, snapshot=folder / "snapshot") as said:
        done = explain_unprivileged(said["worker"], "--snapshot", str(folder / "snapshot"))
        mode = (folder / "snapshot").stat().st_mode
    assert mode & 0o777 == 0o600
    assert done.returncode != 0
