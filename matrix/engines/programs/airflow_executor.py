"""What Airflow's scheduler starts: its LocalExecutor with all workers, each of which has had work.

    python airflow_executor.py WORKERS

Prints a line of JSON with the workers' pids, and ends when its input does. The work is a workload
whose arrival imports what the first task of a worker imports; there is no database and no API
server behind it.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import time

TIMEOUT_S = 300
FIRST_TASK = ("airflow.sdk.execution_time.supervisor", "airflow.sdk.execution_time.task_runner")


class Work:
    """A workload that no executor knows: it is logged as failed, and the worker goes on."""

    running_state = success_state = None
    failure_state = "failed"
    display_name = "work"
    key = 0

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return _arrive, ()


def _arrive() -> Work:
    for name in FIRST_TASK:
        importlib.import_module(name)
    work = Work()
    work.key = os.getpid()
    return work


def main() -> None:
    from airflow.executors.local_executor import LocalExecutor
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.utils.process_utils import set_component_mp_start_method

    assert SchedulerJobRunner
    count = int(sys.argv[1])
    set_component_mp_start_method("scheduler")
    executor = LocalExecutor(parallelism=count)
    executor.start()
    while len(executor.workers) < count:
        executor._spawn_worker()
    done: set[object] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while done != set(executor.workers):
        if time.monotonic() > deadline:
            sys.exit(f"workers that answer: {len(done)} of {count}")
        with executor._unread_messages:
            executor._unread_messages.value += count
        for _ in range(count):
            executor.activity_queue.put(Work())
        time.sleep(1)
        while not executor.result_queue.empty():
            done.add(executor.result_queue.get()[0])
    print(
        json.dumps({"method": multiprocessing.get_start_method(), "pids": sorted(done)}), flush=True
    )
    sys.stdin.read()
    executor.end()


if __name__ == "__main__":
    main()
