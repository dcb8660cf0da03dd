"""A session of `benchmarks.image`: groups a table, fits a line, collects, and stays."""

import gc
import os
import signal

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression


def work() -> None:
    """The work of a user in the first minute."""
    generator = np.random.default_rng(1)
    frame = pd.DataFrame({"key": generator.integers(0, 20, 2000), "x": generator.random(2000)})
    frame["y"] = 3 * frame["x"] + generator.normal(size=2000)
    frame.groupby("key").agg(["mean", "std"]).to_string()
    LinearRegression().fit(frame[["x"]], frame["y"])
    gc.collect()


if __name__ == "__main__":
    work()
    print(os.getpid(), flush=True)
    signal.pause()
