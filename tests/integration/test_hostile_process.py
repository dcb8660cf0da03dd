"""A process that looks at another is not harmed by the name that the other chose."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from running import pasture

pytest.importorskip("numpy")
pytest.importorskip("jinja2")

import numpy as np

from pasture.trust.untrusted_text import to_json
from pasture_tools.explain.document import as_document
from pasture_tools.explain.explain import explain
from pasture_tools.explain.snapshot import RECORD

PROGRAM = Path(__file__).parent.parent / "programs" / "hostile.py"
# What a terminal obeys, ends of lines that others see, and characters that turn a line around.
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069]")

pytestmark = [pytest.mark.once]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def hostile(folder):
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PASTURE_SNAPSHOT": str(folder / "snapshot")},
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.communicate()


@pytest.fixture(scope="module")
def explained(hostile, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    done = pasture(
        *("explain", hostile["worker"], "--json", folder / "found.json"),
        *("--html", folder / "found.html"),
        text=False,
    )
    assert done.returncode == 0, done.stderr
    return done, folder


def test_names_reach_the_terminal_with_nothing_that_it_obeys(explained):
    done, _ = explained
    shown = done.stdout.decode()
    assert not HARMFUL.search(shown), HARMFUL.search(shown)
    assert "\\x1b]0;owned\\x07" in shown
    assert "[/red][bold]" in shown, "rich has read markup in a name"


def test_a_document_is_ascii_and_has_no_half_characters(explained):
    text = (explained[1] / "found.json").read_bytes().decode("ascii")
    assert not HARMFUL.search(text)
    assert "owned" in text
    json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")


def test_a_page_has_no_element_that_a_process_named(explained):
    page = (explained[1] / "found.html").read_text(encoding="utf-8")
    assert "owned" in page
    assert "<script" not in page
    assert not HARMFUL.search(page.replace("\t", " "))


@pytest.mark.parametrize("command", [("doctor",), ("top", "--once")])
def test_doctor_and_top_work_on_such_a_process(hostile, command, tmp_path):
    done = pasture(*command, hostile["parent"], text=False)
    assert done.returncode in (0, 15), done.stderr
    assert b"Traceback" not in done.stderr
    assert not HARMFUL.search(done.stdout.decode() + done.stderr.decode())


def test_doctor_names_the_thread_with_its_escape_written_out(hostile, tmp_path):
    done = pasture("doctor", hostile["parent"], "--json", tmp_path / "found.json", text=False)
    assert b"\\x1b[31mt" in done.stdout
    assert "\x1b" not in (tmp_path / "found.json").read_text()


def test_a_process_is_found_whatever_it_is_called(hostile):
    from pasture.proc import tree

    assert hostile["worker"] in tree.forked_workers(hostile["parent"])
    assert tree.is_running(hostile["parent"])


def lie_of(kind, rows, fields):
    """Change the records or the offsets of a snapshot in a way that its head does not betray."""
    drawn = np.random.default_rng(len(kind)).integers(0, len(rows), len(rows))
    if kind == "owners in rings":
        rows["owner"] = drawn
    elif kind == "other kinds":
        rows["kind"] = drawn % 7
    elif kind == "no types":
        rows["type"] = rows["address"][drawn]
    elif kind == "absurd sizes":
        rows["bytes"] = np.array([0, 1, 8, 1 << 30, (1 << 44) - 1], dtype=np.uint64)[drawn % 5]
    elif kind == "other places":
        rows["address"] = rows["address"][drawn] + (drawn % 64).astype(np.uint64)
    else:
        for i, field in enumerate(fields):
            field[2] = (0, 8, 24, 7, 65528)[i % 5] if field[0] != "keys" else field[2]


KINDS = ("owners in rings", "other kinds", "no types", "absurd sizes", "other places", "fields")


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_that_lies_makes_an_explanation_wrong_and_nothing_else(
    hostile, folder, kind, tmp_path
):
    data = (folder / "snapshot").read_bytes()
    magic, head, records = data.split(b"\n", 2)
    said, rows = json.loads(head), np.frombuffer(records, dtype=RECORD).copy()
    lie_of(kind, rows, said["fields"])
    lying = tmp_path / "snapshot"
    lying.write_bytes(magic + b"\n" + json.dumps(said).encode() + b"\n" + rows.tobytes())

    found = explain(hostile["parent"], hostile["worker"], lying)

    to_json(as_document(found))
    assert found.explained_bytes == pytest.approx(found.private_bytes, rel=0.1)
