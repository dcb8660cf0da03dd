"""The server: making zygotes, on top of each other and again, and clients that mean no good."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from zygotes import TIMEOUT_S, Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]


def connected(zygotes: Zygotes) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(zygotes.folder / "pasture" / "zygote"))
    connection.settimeout(TIMEOUT_S)
    return connection


def module(zygotes: Zygotes, name: str, text: str) -> Path:
    """A module that zygotes and programs find."""
    path = zygotes.folder / f"{name}.py"
    path.write_text(text)
    zygotes.environ["PYTHONPATH"] = str(zygotes.folder)
    return path


def test_the_zygote_that_has_most_of_what_a_program_imports_serves_it(zygotes: Zygotes) -> None:
    for source, name in (
        ("pass", "bare"),
        ("import json", "bare"),  # pasture itself needs it
        ("import random", "json"),
        ("from decimal import Decimal", "decimal"),
        ("if 1:\n  import os, decimal as d", "decimal"),
    ):
        assert zygotes.why("-c", source).endswith(f": {name}"), source


def test_a_zygote_is_chosen_by_its_name(zygotes: Zygotes) -> None:
    found = zygotes.why("-c", "pass", environ={"PASTURE_ZYGOTE": "decimal"})
    assert found.endswith(": decimal")
    found = zygotes.why("-c", "pass", environ={"PASTURE_ZYGOTE": "missing"})
    assert found.endswith("no zygote is called missing")


def test_memory_is_shared_down_the_tree(zygotes: Zygotes) -> None:
    source = (
        "import re; t = open('/proc/self/maps').read(); "
        "print(len({l.split()[4] for l in t.splitlines() if 'pasture-zygote' in l}))"
    )
    environ = {**zygotes.environ, "PASTURE_ZYGOTE": "decimal"}
    assert zygotes.run("-c", source, env=environ).out == b"3\n"


def test_a_zygote_is_made_again_when_a_file_of_it_changes(own_zygotes: Zygotes) -> None:
    path = module(own_zygotes, "changing", "VALUE = 1\n")
    own_zygotes.pasture("start", "--preload", "changing", "--name", "x")
    source = "import changing; print(changing.VALUE)"
    assert own_zygotes.run("-c", source).out == b"1\n"
    path.write_text("VALUE = 2222\n")
    assert own_zygotes.run("-c", source).out == b"2222\n"  # at once, by the interpreter
    own_zygotes.wait_until_served(source, "x")
    assert own_zygotes.run("-c", source).out == b"2222\n"
    assert own_zygotes.status()["x"]["made"] == 2


def test_a_module_that_appears_before_a_loaded_one_is_noticed(own_zygotes: Zygotes) -> None:
    module(own_zygotes, "unrelated", "")
    own_zygotes.pasture("start", "--preload", "colorsys", "--name", "x")
    source = "import colorsys; print(hasattr(colorsys, 'MINE'))"
    assert own_zygotes.run("-c", source).out == b"False\n"
    module(own_zygotes, "colorsys", "MINE = 1\n")
    assert own_zygotes.run("-c", source).out == b"True\n"


def test_a_zygote_on_top_is_made_again_with_its_base(own_zygotes: Zygotes) -> None:
    # A reload that waited for the base alone would end before the one on top is made.
    (own_zygotes.folder / "slow.py").write_text("import time\ntime.sleep(1)\n")
    own_zygotes.environ["PYTHONPATH"] = str(own_zygotes.folder)
    own_zygotes.pasture("start", "--preload", "json", "--name", "low")
    own_zygotes.pasture("start", "--preload", "slow", "--name", "high", "--base", "low")
    own_zygotes.pasture("reload", "--name", "low")
    found = own_zygotes.status()
    assert (found["low"]["made"], found["high"]["made"]) == (2, 2)
    own_zygotes.pasture("stop", "--name", "low")
    assert set(own_zygotes.status()) == {"bare"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_at_all", "ended"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()", ""),
        ("import socket\nS = socket.socket()", "keeps open"),
        ("F = open('/tmp/pasture-kept', 'w')", "keeps open"),
        ("import fcntl\nfcntl.flock(F := open(__file__, 'a'), fcntl.LOCK_EX)", "keeps open"),
        ("import os\nos._exit(3)", "ended"),
        ("import mmap\nM = mmap.mmap(-1, 4096)", "shared with other processes"),
    ],
)
def test_a_module_that_cannot_be_preloaded_is_reported(
    own_zygotes: Zygotes, text: str, said: str
) -> None:
    module(own_zygotes, "difficult", text)
    done = own_zygotes.pasture("start", "--preload", "difficult", "--name", "x", check=False)
    if said:
        assert done.returncode == 17
        assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert own_zygotes.run("-c", "print(1)").out == b"1\n"


@pytest.mark.parametrize(
    "message",
    [b"", b"\0", b"run 2", b"run 2\0a", b"order 1\0[]", b"order 1\0{", b"order 1\0{}", b"x" * 9999,
     b'order 1\0{"do": "start"}', b'order 1\0{"do": "start", "name": []}', b"run 2\0\xff\0\0\0",
     b"order 1\0" + b"[" * 50_000],
)  # fmt: skip
def test_a_message_without_sense_does_not_stop_the_server(zygotes: Zygotes, message: bytes) -> None:
    with connected(zygotes) as connection:
        connection.send(message)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    assert "served" in zygotes.why("-c", "pass")


def test_a_client_that_says_nothing_keeps_no_one_waiting(zygotes: Zygotes) -> None:
    with connected(zygotes), connected(zygotes):
        assert "served" in zygotes.why("-c", "pass")


def test_programs_go_on_when_the_server_is_killed(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")
    process = own_zygotes.popen(["-c", "input(); import json; print(json.dumps([1]))"],
                                stdin=-1, stdout=-1)  # fmt: skip
    os.kill(own_zygotes.pid(), signal.SIGKILL)
    out, _ = process.communicate(b"\n", TIMEOUT_S)
    assert (out, process.returncode) == (b"[1]\n", 0)
    assert own_zygotes.run("-c", "print(1)").out == b"1\n"
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")  # in the place of the old
    assert "served" in own_zygotes.why("-c", "pass")


def test_orders_without_a_server_end_with_a_hint(own_zygotes: Zygotes) -> None:
    for order in ("status", "stop", "reload"):
        done = own_zygotes.pasture(order, check=False)
        assert (done.returncode, "no zygote is running" in done.stderr) == (17, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--base", "missing"),
        ("--options", "-c pass"),
        ("--options", "--help"),
        ("--options", "-W"),
        ("--name", ""),
        ("--name", "bare"),
        ("--name", "a\nb"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(zygotes: Zygotes, words: tuple[str, ...]) -> None:
    done = zygotes.pasture("start", *words, check=False)
    assert done.returncode in (2, 17)
    assert "Traceback" not in done.stderr


def test_a_socket_from_systemd_is_served(own_zygotes: Zygotes) -> None:
    folder = own_zygotes.folder / "pasture"
    folder.mkdir(0o700)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    bound.bind(str(folder / "zygote"))
    bound.listen()
    script = (
        "import os, sys\nos.dup2(int(sys.argv[1]), 3)\nos.environ.update(LISTEN_FDS='1', "
        "LISTEN_PID=str(os.getpid()))\nos.execv(sys.executable, [sys.executable, '-m', 'pasture', "
        "'zygote', 'start', '--foreground', '--name', 'x'])"
    )
    import subprocess
    import sys

    server = subprocess.Popen(
        [sys.executable, "-c", script, str(bound.fileno())],
        pass_fds=[bound.fileno(), 3] if bound.fileno() != 3 else [3],
        env=own_zygotes.environ,
    )
    bound.close()
    try:
        own_zygotes.wait_until_served("pass")
    finally:
        server.terminate()
        assert server.wait(TIMEOUT_S) == 0


def test_a_zygote_starts_again_after_what_makes_its_base_was_killed(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")
    server = own_zygotes.pid()
    with connected(own_zygotes) as connection:
        connection.send(b'order 1\0{"do": "reload"}')
        end = time.monotonic() + TIMEOUT_S
        while not (below := Path(f"/proc/{server}/task/{server}/children").read_text().split()):
            assert time.monotonic() < end
        os.kill(int(below[0]), signal.SIGKILL)
        assert b"error" in connection.recv(1 << 16)
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")
    assert "served" in own_zygotes.why("-c", "import json")


def test_nothing_is_stopped_for_good_when_what_makes_zygotes_is_killed(
    own_zygotes: Zygotes,
) -> None:
    module(own_zygotes, "slow_to_fork", "import os\nos.register_at_fork(before=lambda: None)\n")
    own_zygotes.pasture("start", "--preload", "slow_to_fork", "--name", "x")
    mark = f"XDG_RUNTIME_DIR={own_zygotes.folder}\0".encode()
    server = own_zygotes.pid()
    for moment in (0.1, 0.2, 0.3, 0.4):
        with connected(own_zygotes) as connection:
            connection.send(b'order 1\0{"do": "reload"}')
            time.sleep(moment)
            for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
    own_zygotes.pasture("stop")
    end = time.monotonic() + TIMEOUT_S
    while any(mark in variables for variables in environments()):
        assert time.monotonic() < end
        time.sleep(0.1)


def environments() -> list[bytes]:
    """Of all other processes."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found.append((entry / "environ").read_bytes())
            except OSError:
                continue
    return found


@pytest.mark.once
def test_a_zygote_on_another_one_copies_little_of_what_is_below_it(zygotes: Zygotes) -> None:
    """Code that is sealed stays where it is, and so do pages that are as they were."""
    found = zygotes.status()
    assert found["decimal"]["bytes"] < found["json"]["bytes"] / 2
