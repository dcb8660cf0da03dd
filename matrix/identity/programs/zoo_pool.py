"""The zoo in a pool of multiprocessing: `zoo_pool.py fork|forkserver|spawn [sealed]`."""

import multiprocessing
import sys
import time

METHOD, *SEALED = sys.argv[1:]
if METHOD == "fork":
    import zoo  # noqa: F401  the program's own state, which its children share


def work(_):
    import zoo

    pid = zoo.write()
    time.sleep(0.3)
    return pid


if __name__ == "__main__":
    if SEALED and METHOD == "forkserver":
        import pasture

        context = pasture.sealed_forkserver("zoo")
    else:
        context = multiprocessing.get_context(METHOD)
    with context.Pool(2) as pool:
        pool.map(work, range(6), chunksize=1)
