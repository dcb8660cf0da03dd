"""Jobs of Dagster, in processes out of a forkserver: sums, and steps that end themselves."""

import os
import sys

from dagster import Definitions, Out, job, multiprocess_executor, op

executor = multiprocess_executor.configured(
    {"max_concurrent": 2, "start_method": {"forkserver": {"preload_modules": ["dagster_jobs"]}}}
)


@op
def one() -> int:
    return 1


@op
def two() -> int:
    return 2


@op
def adds(left: int, right: int) -> int:
    return left + right


@op(out=Out(int))
def leaves() -> int:
    sys.exit(3)


@op(out=Out(int))
def drops() -> int:
    os._exit(3)


@job(executor_def=executor)
def sums() -> None:
    adds(one(), two())


@job(executor_def=executor)
def leaving() -> None:
    adds(one(), leaves())


@job(executor_def=executor)
def dropping() -> None:
    adds(drops(), two())


definitions = Definitions(jobs=[sums, leaving, dropping])
