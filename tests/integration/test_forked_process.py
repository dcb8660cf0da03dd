"""Processes that a server's parent forks where it would spawn them: their end."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, time
from pasture.servers.forked_process import Forking

def end_by_itself(reader):
    os.read(reader, 1)
    time.sleep(0.2)

for ends_within_s, target in ((60, end_by_itself), (0.1, time.sleep)):
    context = Forking(lambda: None, ends_within_s)
    reader, writer = os.pipe()
    workers = [context.Process(target=target, args=(reader if target is end_by_itself else 600,))
               for _ in range(2)]
    for worker in workers:
        worker.start()
    os.write(writer, b"..")
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()
    print(*(worker.exitcode for worker in workers))
"""


@pytest.mark.once
def test_a_terminated_worker_has_the_time_that_its_server_gives_it_and_no_more():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split("\n") == ["0 0", "-15 -15", ""], done.stderr
