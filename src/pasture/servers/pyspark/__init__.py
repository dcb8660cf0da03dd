"""PySpark's workers, forked from a sealed daemon.

    spark.python.daemon.module      pasture.servers.pyspark
    spark.executorEnv.PASTURE_PRELOAD   pandas,pyarrow,my_job

Spark then starts `python -m pasture.servers.pyspark` on each node where it would start
`python -m pyspark.daemon`. docs/clusters.md is the user's guide.
"""
