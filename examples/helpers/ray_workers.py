"""Workers of Ray out of an image.

    $ pasture image build -o app.img --preload numpy,pandas
    $ PASTURE_IMAGE=$PWD/app.img python ray_workers.py

Preload what your tasks import, and not ray itself: its code in C++ keeps the environment in which
it was loaded, with the id of the job. No worker starts out of an image that has loaded it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ray

PYTHON = Path(sys.executable).with_name("pasture-python")


@ray.remote
def total(numbers: list[int]) -> tuple[bool, int]:
    """Whether the worker had pandas before the task asked for it, and a sum."""
    was_loaded = "pandas" in sys.modules
    import pandas

    return was_loaded, int(pandas.Series(numbers).sum())


def main() -> None:
    """Run a task in such a worker."""
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        runtime_env={
            "py_executable": str(PYTHON),
            "env_vars": {"PASTURE_IMAGE": os.environ["PASTURE_IMAGE"]},
        },
    )
    was_loaded, found = ray.get(total.remote([1, 2, 3]))
    print(f"pandas was {'' if was_loaded else 'not '}loaded before, the sum is {found}")
    ray.shutdown()


if __name__ == "__main__":
    main()
