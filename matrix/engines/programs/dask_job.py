"""A client: plain functions and data frames on Dask's workers, again and again, results checked.

    dask_job.py SCHEDULER WORKERS ROUNDS

It prints a JSON document with the workers' pids and the seconds of a round.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import dask.dataframe
import pandas
import spark_functions
from distributed import Client

ROWS = 40_000


def run_jobs(client: Any, workers: int) -> None:
    """Each kind of work once on each worker; the results are what the client computes itself.

    Raises:
        AssertionError: they are not.
    """
    expected = sum(spark_functions.price(n) for n in range(ROWS))
    parts = [range(n, ROWS, workers) for n in range(workers)]
    for names in client.scheduler_info()["workers"]:
        found = client.submit(total, parts[0], pure=False, workers=[names]).result()
        assert abs(found - sum(spark_functions.price(n) for n in parts[0])) < 1e-3
    assert abs(sum(client.gather(client.map(total, parts, pure=False))) - expected) < 1e-3
    plain = pandas.DataFrame({"id": range(ROWS)})
    frame = dask.dataframe.from_pandas(plain, npartitions=2 * workers)
    priced = frame["id"].map(spark_functions.price, meta=("id", "f8"))
    assert abs(priced.sum().compute() - expected) < 1e-3
    keyed = frame.assign(key=frame["id"] % 20).groupby("key")["id"].sum().compute()
    assert keyed.sum() == ROWS * (ROWS - 1) // 2


def total(numbers: range) -> float:
    return float(sum(spark_functions.price(n) for n in numbers))


def main(scheduler: str, workers: int, rounds: int) -> None:
    with Client(scheduler, timeout=120) as client:
        client.wait_for_workers(workers, timeout=240)
        run_jobs(client, workers)
        began = time.monotonic()
        for _ in range(rounds):
            run_jobs(client, workers)
        round_s = (time.monotonic() - began) / max(rounds, 1)
        pids = list(client.run(os.getpid).values())
    print(json.dumps({"pids": pids, "round_s": round_s}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
