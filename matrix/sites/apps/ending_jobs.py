"""Jobs of RQ that end themselves, and a program that enqueues them and prints the outcome of each.

python ending_jobs.py QUEUE
"""

import os
import re
import sys
import time

DIGITS = ("nought", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def leaves(code):
    """Ends by sys.exit."""
    sys.exit(code)


def drops(code):
    """Ends without a word."""
    os._exit(code)


def adds(*numbers):
    """Returns a sum."""
    return sum(numbers)


def spelled(text):
    """A text with its numbers in words: figures are masked before runs are compared."""
    return re.sub(r"\d", lambda found: f" {DIGITS[int(found[0])]}", text)


def main(queue_name):
    from redis import Redis
    from rq import Queue

    queue = Queue(queue_name, connection=Redis.from_url(os.environ["REDIS_URL"]))
    jobs = [queue.enqueue(f"ending_jobs.{name}", *arguments) for name, *arguments in (
        ("adds", 1, 2), ("leaves", 0), ("leaves", 3), ("drops", 3), ("adds", 3, 4),
    )]  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not all(
        job.get_status() in ("finished", "failed") for job in jobs
    ):
        time.sleep(0.2)
    for job in jobs:
        why = (job.latest_result().exc_string or "") if job.latest_result() else ""
        last = (why.strip().splitlines() or [""])[-1]
        print(job.func_name, spelled(f"{job.args} {job.get_status().value} {last}"))


if __name__ == "__main__":
    main(sys.argv[1])
