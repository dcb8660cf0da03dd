"""The zoo in workers of PySpark, on this machine: `zoo_spark.py WORKERS [SETTING=VALUE ...]`."""

import sys
import time

from pyspark.sql import SparkSession


def work(_):
    import zoo

    pid = zoo.write()
    time.sleep(1.0)  # the next task is another worker's
    return pid


def main():
    workers, *settings = sys.argv[1:]
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    for setting in settings:
        builder = builder.config(*setting.split("=", 1))
    session = builder.getOrCreate()
    number = 2 * int(workers)
    context = session.sparkContext
    print(sorted(set(context.parallelize(range(number), number).map(work).collect())), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
