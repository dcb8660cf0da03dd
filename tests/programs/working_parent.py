"""A parent that works between its forks: it makes 40,000 lists before each of two.

`working_parent.py fork` forks by os.fork, `working_parent.py pool` by multiprocessing. A child
prints a line of JSON: whether the lists of before each fork are immortal.
"""

import json
import multiprocessing
import os
import sys

LISTS = []


def work():
    LISTS.append([[i] for i in range(40_000)])


def say():
    print(json.dumps([sys.getrefcount(lists) > 1_000_000 for lists in LISTS]), flush=True)


def fork():
    pid = os.fork()
    if pid == 0:
        say()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def start():
    process = multiprocessing.get_context("fork").Process(target=say)
    process.start()
    process.join()
    assert process.exitcode == 0


if __name__ == "__main__":
    for _ in range(2):
        work()
        {"fork": fork, "pool": start}[sys.argv[1]]()
