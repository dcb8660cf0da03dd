"""Libraries of which no more is known than their threads."""

from __future__ import annotations

from pasture.fork_safety.library import Library, Named

_ONE_THREAD = "set OPENBLAS_NUM_THREADS=1 for the master, or compute in workers only"
_OWN_PROCESS = "run it in a process of its own"

CARDS = (
    Library(package="sentry-sdk", restarted=("sentry",), restarts_all=True),
    Library(threads=(Named("raven", "the Raven client", "set it up in each worker"),)),
    Library(
        threads=(
            Named("ThreadPoolExecutor", "a thread pool", "make it at its first use in each worker"),
        )
    ),
    Library(
        package="apscheduler",
        remedy=_OWN_PROCESS,
        threads=(Named("APScheduler", "a scheduler", _OWN_PROCESS),),
    ),
    Library(package="confluent-kafka", remedy="make producers and consumers in each worker"),
    # Tried with OpenBLAS of numpy 2.5 and scipy 1.18, pyarrow 26, numexpr 2.14, tokenizers 0.23 and
    # uvloop 0.23.
    Library(package="numpy", remedy=_ONE_THREAD, native_files="openblas"),
    Library(package="scipy", remedy=_ONE_THREAD),
    Library(package="pyarrow", native_files=r"libarrow\."),
    Library(package="numexpr", native_files="/numexpr/"),
    Library(package="tokenizers", native_files="/tokenizers/"),
    Library(package="uvloop", native_files="/uvloop/"),
)
