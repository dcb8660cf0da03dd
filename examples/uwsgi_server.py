"""uWSGI with four workers that each read the whole price list, a hundred requests.

    python examples/uwsgi_server.py            # sealed
    python examples/uwsgi_server.py --plain    # the application preloaded, nothing else

The last line is JSON.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import memory

WORKERS = 4
REQUESTS = 100
TIMEOUT_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port, plain):
    policy = ["--policy", "stock"] if plain else []
    server = ["uwsgi", "--master", "--processes", str(WORKERS), "--module", "price_site"]
    quiet = ["--disable-logging", "--http-socket", f"127.0.0.1:{port}"]
    return subprocess.Popen(
        [sys.executable, "-m", "pasture", "run", *policy, *server, *quiet],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ask(port):
    """Which worker answered."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=TIMEOUT_S) as answer:
        return int(answer.read().split()[0])


def wait_until_it_answers(port):
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask(port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="without pasture's seal")
    plain = parser.parse_args().plain
    port = free_port()
    server = start(port, plain)
    try:
        wait_until_it_answers(port)
        answers = Counter(ask(port) for _ in range(REQUESTS))
        while len(answers) < WORKERS:
            answers[ask(port)] += 1
        found = memory.of_workers(server.pid)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(TIMEOUT_S)
    print(json.dumps({"sealed": not plain, "workers": found}))


if __name__ == "__main__":
    main()
