"""Seals again and again while threads allocate, compute, wait and fork.

    python benchmarks/programs/threads.py SECONDS SEED

Prints how often it sealed. Exits with 1 if a thread or a forked child failed; a crash speaks for
itself. Every second seal does not ask whether the threads wait.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator

import pasture

MIN_ROUNDS = 3
SEQUENCE: Callable[..., object] = tuple if sys.version_info >= (3, 14) else list
"""docs/internals/threads.md: a tuple of an iterator is what earlier versions do not bear."""

stop = threading.Event()
failures: list[str] = []
lists = [[n, n + 1000, n + 2000] for n in range(2000)]


def allocate(rng: random.Random) -> None:
    kept: list[dict[int, list[str]]] = []
    while not stop.is_set():
        kept.append({n: [str(n)] * rng.randrange(9) for n in range(rng.randrange(50))})
        if len(kept) > 200:
            kept = kept[::2]
        SEQUENCE(_slowly(rng.randrange(40)))


def _slowly(count: int) -> Iterator[str]:
    for number in range(count):
        time.sleep(0.0001)
        yield str(number)


def compute(rng: random.Random) -> None:
    data = bytes(1 << 20)
    while not stop.is_set():
        zlib.crc32(data)


def wait(rng: random.Random) -> None:
    while not stop.is_set():
        time.sleep(rng.random() / 100)


def fork(rng: random.Random) -> None:
    while not stop.is_set():
        pid = os.fork()
        if pid == 0:
            gc.collect()
            os._exit(0 if sum(map(len, lists)) == 6000 else 9)
        _, status = os.waitpid(pid, 0)
        if status:
            failures.append(f"a child ended with status {status:#x}")
        time.sleep(0.01)


def guarded(function: Callable[[random.Random], None], seed: int) -> None:
    try:
        function(random.Random(seed))
    except BaseException as error:
        failures.append(repr(error))


def main(seconds: float, seed: int) -> int:
    warnings.simplefilter("ignore")  # of forks while threads run
    threads = [
        threading.Thread(target=guarded, args=(function, seed + number))
        for number, function in enumerate((allocate, allocate, compute, wait, fork))
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < deadline or rounds < MIN_ROUNDS:
        pasture.seal(allow_threads=rounds % 2 == 0)
        rounds += 1
    stop.set()
    for thread in threads:
        thread.join()
    for failure in failures:
        print(failure, file=sys.stderr)
    print(rounds)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2])))
