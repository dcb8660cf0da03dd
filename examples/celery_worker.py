"""Celery with four pool processes that each read the whole price list; Redis in between.

    python examples/celery_worker.py            # sealed
    python examples/celery_worker.py --plain    # the tasks preloaded, nothing else

Redis comes from the PATH or out of Debian (tools/services). The last line is JSON.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import memory
from uwsgi_server import TIMEOUT_S, free_port

POOL = 4
TASKS = 40
HERE = Path(__file__).resolve().parent


def start_redis(port, folder):
    program = subprocess.run(
        [HERE.parent / "tools" / "services", "redis-server"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    return subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)


def start_worker(environment, plain):
    policy = ["--policy", "stock"] if plain else []
    worker = ["celery", "-A", "price_tasks", "worker", "-c", str(POOL), "-l", "ERROR"]
    return subprocess.Popen(
        [sys.executable, "-m", "pasture", "run", *policy, *worker],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="without pasture's seal")
    plain = parser.parse_args().plain
    port = free_port()
    os.environ["PRICE_BROKER"] = f"redis://127.0.0.1:{port}/0"
    import price_tasks

    with tempfile.TemporaryDirectory() as folder:
        redis = start_redis(port, folder)
        worker = start_worker({**os.environ, "PYTHONPATH": str(HERE)}, plain)
        try:
            results = [price_tasks.value_of_stock.delay(0.1) for _ in range(TASKS)]
            for result in results:
                result.get(timeout=TIMEOUT_S)
            found = memory.of_workers(worker.pid)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(TIMEOUT_S)
            redis.terminate()
            redis.wait(TIMEOUT_S)
    print(json.dumps({"sealed": not plain, "workers": found}))


if __name__ == "__main__":
    main()
