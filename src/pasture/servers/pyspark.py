"""PySpark's workers, forked from a sealed daemon.

    spark.python.daemon.module      pasture.servers.pyspark
    spark.executorEnv.PASTURE_PRELOAD   pandas,pyarrow,my_job

Spark then starts `python -m pasture.servers.pyspark WORKER_MODULE` on each node instead of `python
-m pyspark.daemon`. docs/clusters.md is the user's guide.

Written for PySpark 4.3; leans on `pyspark.daemon.manager`, which forks a worker a connection, and
on the workers' import of their module after the fork. Invariant: only PySpark writes to standard
output, where Spark reads the daemon's port.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import sys
from collections.abc import Iterator, Sequence

from pasture.errors import MissingExtra, PastureError
from pasture.own_values import generators
from pasture.sealing.gc_settings import begin_loading
from pasture.serving import fork_hook, preload
from pasture.serving.sealer import Sealer, is_off, show_log, without_exit
from pasture.serving.settings import read_environment
from pasture.trust.untrusted_text import complain

_WORKER = "pyspark.worker"
_MAX_PIPE_BYTES = 1 << 20  # allowed for every user


def main() -> None:
    """Load, seal, and run PySpark's daemon."""
    if is_off():
        importlib.import_module("pyspark.daemon").manager()
        return
    with _all_output_to_the_log():
        try:
            sealer = prepare(sys.argv[1:])
        except PastureError as error:
            sys.exit(complain(error))
    fork_hook.watch(sealer.before_fork_or_end)
    importlib.import_module("pyspark.daemon").manager()


def prepare(arguments: Sequence[str]) -> Sealer:
    """Load the workers' modules, and seal this process.

    Spark's arguments are the workers' module, or nothing. May raise a PastureError.
    """
    settings = read_environment()
    show_log()
    begin_loading(settings.policy)
    try:
        importlib.import_module("pyspark.daemon")
    except ImportError as error:
        raise MissingExtra(
            f"pyspark cannot be imported: {error}",
            hint="this is the module of Spark's daemon: name it in spark.python.daemon.module",
        ) from error
    with generators.observed():
        # The same choice as in `pyspark.daemon.worker`.
        is_named = bool(arguments) and arguments[0].startswith("pyspark")
        preload.load([arguments[0] if is_named else _WORKER], is_needed=settings.strict)
    sealer = Sealer(without_exit(settings))  # workers end by os._exit, in PySpark's daemon
    sealer.before_fork()
    return sealer


@contextlib.contextmanager
def _all_output_to_the_log() -> Iterator[None]:
    """Send all output to standard error, also that of libraries in C.

    Spark does not read standard error before it has the port: a full pipe would block the daemon.
    """
    with contextlib.suppress(OSError):
        fcntl.fcntl(2, fcntl.F_SETPIPE_SZ, _MAX_PIPE_BYTES)
    sys.stdout.flush()
    port = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(port, 1)
        os.close(port)


if __name__ == "__main__":
    main()
