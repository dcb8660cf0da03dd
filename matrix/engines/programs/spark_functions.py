"""What the jobs of `spark_job` call: a table of tariffs, as a job's own module has one.

Imported in Spark's Python workers, in the driver, and where it is preloaded in the daemon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pandas
import pyarrow
import pyarrow.compute

REGIONS = 20_000

TARIFFS = {
    f"region-{number}": {
        "rate": number % 97 / 10,
        "steps": [number, number + 1],
        "name": str(number),
    }
    for number in range(REGIONS)
}


def price(number: int) -> float:
    """What one row costs; in plain Python."""
    tariff: dict[str, Any] = TARIFFS[f"region-{number % REGIONS}"]
    return float(tariff["rate"] + tariff["steps"][1] - tariff["steps"][0])


def priced(numbers: Iterator[int]) -> Iterator[tuple[str, float]]:
    """For `mapPartitions`: pairs of a group and a price."""
    for number in numbers:
        yield f"group-{number % 10}", price(number)


def price_series(numbers: pandas.Series) -> pandas.Series:
    """For `pandas_udf`."""
    return numbers.map(price).astype(numpy.float64)


def doubled(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """For `mapInArrow`."""
    for batch in batches:
        column = pyarrow.compute.multiply(batch.column(0), 2)
        yield pyarrow.RecordBatch.from_arrays([column], names=["id"])


def summed(frame: pandas.DataFrame) -> pandas.DataFrame:
    """For `applyInPandas`: one row a group."""
    total = frame["id"].map(price).sum()
    return pandas.DataFrame({"key": [frame["key"].iloc[0]], "total": [total]})
