"""Modules of pasture that its import, `pasture run` and a sealed gunicorn load, and their time.

    make bench-loaded ARGS="--rounds 5"

The server has neither a warm-up nor a refork. Its modules are counted in its first worker: they are
sealed in. Times are of the processor, medians of whole processes, interpreter included.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click

COUNT = "sum(name.partition('.')[0] in ('pasture', 'pasture_tools') for name in sys.modules)"
COMMAND = f"""
import os, runpy, sys
def execve(*arguments):
    print({COUNT}, flush=True)
    os._exit(0)
os.execve = execve
sys.argv, sys.orig_argv = ["pasture", "run", "gunicorn", "app:app"], ["python", "-m", "pasture"]
runpy.run_module("pasture", run_name="__main__", alter_sys=True)
"""
APPLICATION = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b""]
"""
CONFIGURATION = f"""
import os, signal, sys
bind, loglevel, control_socket_disable = "127.0.0.1:0", "error", True
def post_fork(server, worker):
    print({COUNT}, flush=True)
    os.kill(os.getppid(), signal.SIGTERM)
"""
WAYS = {
    "python -c pass": ("-c", "print(0)"),
    "import pasture": ("-c", f"import sys, pasture; print({COUNT})"),
    "pasture run gunicorn, to execve": ("-c", COMMAND),
    "gunicorn, sealed": ("-m", "pasture.servers.gunicorn", "app:app"),
}


def processor_s() -> float:
    """Of this process's children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command(help=__doc__)
@click.option("--rounds", default=10, show_default=True)
def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APPLICATION)
        Path(folder, "gunicorn.conf.py").write_text(CONFIGURATION)
        for name, words in WAYS.items():
            times = []
            for _ in range(rounds):
                begin_s = processor_s()
                done = subprocess.run(
                    [sys.executable, *words], cwd=folder, capture_output=True, text=True
                )
                times.append(processor_s() - begin_s)
                if not done.stdout:
                    raise click.ClickException(f"{name}: {done.stderr}")
            modules = int(done.stdout.splitlines()[0])
            click.echo(f"{name}: {modules} modules, {statistics.median(times) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
