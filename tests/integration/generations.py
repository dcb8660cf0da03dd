"""What tests ask of a server that reforks: processes, roles, and the way to a generation."""

import os
import socket
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

from running import TIMEOUT_S

from pasture.scoreboard.reader import read_scoreboard

REFORKED = "pasture: all workers are of generation "
CLIENTS = 3

_PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


def at_any_price(*folders):
    """Variables of a server that reforks whatever that saves, with these folders to import from."""
    parts = (*folders, _PROGRAMS, _PROGRAMS / "any_price")
    return {"PYTHONPATH": os.pathsep.join(map(str, parts))}


def processes(server):
    """All that belong to a server, under any parent."""
    return server.members()


def load(server, requests, path="/who"):
    """Send requests with several clients; returns how often each process answered."""
    answers, lock = Counter(), threading.Lock()

    def client():
        for _ in range(requests // CLIENTS):
            pid = server.get(path)["pid"]
            with lock:
                answers[pid] += 1

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    assert sum(answers.values()) == requests // CLIENTS * CLIENTS, server.log
    return answers


def refork(server, generation, path="/who"):
    """Send requests until all workers are of a generation."""
    server.wait_for(
        lambda: load(server, CLIENTS, path) and f"{REFORKED}{generation}\n" in server.log,
        f"generation {generation}",
    )


def refork_once(server):
    """Refork to generation 1, and send no request while the refork goes on.

    The workers of generation 1 have answered at most one load then. So the next refork starts with
    the test's own load, if the schedule's second number is larger (it holds for all later ones).
    """
    server.wait_for(
        lambda: load(server, CLIENTS) and "to become the mold of generation 1 " in server.log,
        "the start of a refork",
    )
    server.wait_until_it_logs(f"{REFORKED}1\n")


def serve_until(server, generation):
    """Send named requests with several clients until a generation is complete, 600 at the least.

    Returns:
        The answers.
    """
    names, lock, answered = iter(range(50_000)), threading.Lock(), []
    complete = f"{REFORKED}{generation}"

    def client():
        while True:
            with lock:
                name = next(names)
            if name > 600 and name % 50 < CLIENTS and complete in server.log:
                return
            url = f"http://127.0.0.1:{server.port}/serve"
            with urllib.request.urlopen(url, data=str(name).encode(), timeout=TIMEOUT_S) as answer:
                answered.append(answer.read())

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    return answered


def roles(server, master=None):
    """Dict of pid to role and generation."""
    shown = read_scoreboard(master or server.process.pid)
    entries = shown.entries if shown is not None else {}
    return {pid: (entry.role, entry.generation) for pid, entry in entries.items()}


def mold_of(server):
    wait_for_roles(server, ("mold", 1), ("worker", 1), ("worker", 1))
    [pid] = [pid for pid, (role, _) in roles(server).items() if role == "mold"]
    return pid


def assert_ends_without_a_trace(server):
    assert server.stop() == 0, server.log
    assert processes(server) == ()
    assert_port_is_free(server)


def assert_port_is_free(server):
    """Soon: an ending process gives up its memory before its files."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", server.port))
                return
            except OSError:
                assert time.monotonic() < deadline, server.log
        time.sleep(0.02)


def wait_for_roles(server, *expected):
    # A process that has just started has no generation yet.
    server.wait_for(
        lambda: sorted(roles(server).values(), key=str) == sorted(expected, key=str), f"{expected}"
    )
