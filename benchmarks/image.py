"""Programs out of an image next to `python`: starts, and the memory of sessions and containers.

Times from the start of a process to its first answer, with a warm page cache and with the files of
both dropped from it. Containers are processes in mount, pid, ipc and uts namespaces, each with an
overlay root of its own over this machine's: they share the image's file as a layer's is shared.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click

from benchmarks import image_sessions, image_shell
from pasture.proc.tree import children

BIN = Path(sys.executable).parent
PYTHON, STUB = BIN / "python", BIN / "pasture-python"
SITE = Path(__file__).parents[1] / "demo"
PACKAGES = Path(sys.prefix) / "image-packages"
TIMEOUT_S = 300.0

SERVER = """\
import gc
from wsgiref.simple_server import WSGIRequestHandler, make_server
from meadow.wsgi import application

class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass

def site(environ, start_response):
    if environ["PATH_INFO"] == "/collect":
        gc.collect()
        start_response("200 OK", [])
        return [b""]
    return application(environ, start_response)

server = make_server("127.0.0.1", 0, site, handler_class=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
"""
FIT = """\
import numpy, pandas
from sklearn.linear_model import LinearRegression
frame = pandas.DataFrame({"a": numpy.arange(100.0), "b": numpy.arange(100.0) * 2})
print(LinearRegression().fit(frame[["a"]], frame["b"]).coef_, flush=True)
"""
API_SERVER = """\
import socket, sys, uvicorn
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config("airflow.api_fastapi.main:app", log_level="error"))
server.run(sockets=[listener])
"""
API_MODULES = (
    "uvicorn.main,uvicorn.lifespan.on,uvicorn.loops.auto,uvicorn.protocols.http.auto,"
    "uvicorn.protocols.websockets.auto,airflow.api_fastapi.main"
)
CONTAINER = """\
mount -t tmpfs none "$0" && cd "$0" && mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount -t proc proc root/proc && mount --bind /dev root/dev && exec chroot root "$@"
"""

Environ = Mapping[str, str]
Start = Callable[[], subprocess.Popen[bytes]]


def environment(folder: str, path: Path) -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "PIP_INDEX_URL")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return {**found, "PYTHONPATH": str(path), "PASTURE_IMAGE": f"{folder}/app.img"}


def build(environ: Environ, *words: str) -> None:
    began = time.perf_counter()
    image = environ["PASTURE_IMAGE"]
    command = [str(PYTHON), "-m", "pasture", "image", "build", "-o", image, *words]
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    megabytes = Path(environ["PASTURE_IMAGE"]).stat().st_size / 1e6
    click.echo(f"image of {megabytes:.0f} MB, built in {time.perf_counter() - began:.1f} s")


def build_rehearsed(environ: Environ, program: Path, *words: str) -> None:
    """Of the modules that a program imports, which is the rehearsal, too."""
    recipe = f"{environ['PASTURE_IMAGE']}.recipe"
    command = (PYTHON, "-m", "pasture", "image", "recipe", "-o", recipe, "--", PYTHON, program)
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    build(environ, "--rehearse", str(program), *words, recipe)


def require_started(environ: Environ) -> None:
    verbose = {**environ, "PASTURE_IMAGE_VERBOSE": "1"}
    done = subprocess.run([STUB, "-c", ""], env=verbose, capture_output=True, text=True, cwd="/")
    if "started from the image" not in done.stderr:
        raise click.ClickException(done.stderr)


# -- starts


def drop(environ: Environ) -> None:
    """Have the page cache forget the image and all files that it was made of, as far as it does."""
    with tempfile.NamedTemporaryFile() as shown:
        command = [str(PYTHON), "-m", "pasture", "image", "show", environ["PASTURE_IMAGE"]]
        subprocess.run([*command, "--json", shown.name], check=True, stdout=subprocess.DEVNULL)
        document = json.loads(Path(shown.name).read_text())
    files = {environ["PASTURE_IMAGE"], *document["files"], *document["libraries"]}
    files |= {importlib.util.cache_from_source(path) for path in files if path.endswith(".py")}
    for path in files:
        with suppress(OSError), Path(path).open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def first_answer(program: Path, environ: Environ) -> float:
    """Seconds until a site that is started has answered its first request."""
    began = time.perf_counter()
    with serving([program, "-c", SERVER], environ) as (_, port):
        get(port, "/", {"Host": "localhost"})
        return time.perf_counter() - began


def first_health(program: Path, environ: Environ) -> float:
    """Seconds until Airflow's API server has answered its first request."""
    began = time.perf_counter()
    with serving([program, "-c", API_SERVER], environ) as (_, port):
        get(port, "/api/v2/monitor/health", {})
        return time.perf_counter() - began


def first_fit(program: Path, environ: Environ) -> float:
    began = time.perf_counter()
    command = [str(program), "-c", FIT]
    subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, cwd="/")
    return time.perf_counter() - began


def show_starts(
    name: str, measure: Callable[[Path, Environ], float], environ: Environ, rounds: int
) -> None:
    require_started(environ)
    for cache in ("warm", "dropped"):
        pairs = []
        for _ in range(rounds):
            pair = []
            for program in (PYTHON, STUB):
                if cache == "dropped":
                    drop(environ)
                pair.append(measure(program, environ))
            pairs.append(pair)
        by_python, by_image = map(statistics.median, zip(*pairs, strict=True))
        ratios = sorted(image / python for python, image in pairs)
        click.echo(
            f"{name:18} {cache:7} python {by_python * 1e3:5.0f} ms  image {by_image * 1e3:4.0f} ms "
            f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f})"
        )


# -- a site


@contextmanager
def serving(command: Sequence[object], environ: Environ) -> Iterator[tuple[int, int]]:
    """A program that serves: its process id here, and its port."""
    process = subprocess.Popen(
        [str(word) for word in command], env=environ, stdout=subprocess.PIPE, cwd="/"
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise click.ClickException("the site did not start")
        yield process.pid, int(line)
    finally:
        process.kill()
        process.communicate()


def get(port: int, path: str, headers: Mapping[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status >= 500:
        raise click.ClickException(f"{path}: {answer.status}")


def load() -> tuple[list[str], dict[str, str]]:
    """Paths, and the headers that go with each."""
    lines = (SITE / "var" / "urls.txt").read_text().splitlines()
    fields = (SITE / "var" / "headers.txt").read_text().splitlines()
    pairs = (line.partition(": ")[::2] for line in fields if ": " in line)
    return [line for line in lines if line.startswith("/")], dict(pairs)


# -- containers


def pss(pid: int) -> tuple[int, int]:
    """PSS and private memory, bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {name.rstrip(":"): 1024 * int(n) for name, n, *_ in (line.split() for line in lines)}
    return found["Pss"], found["Private_Dirty"] + found["Private_Clean"]


def show_containers(environ: Environ, count: int, folder: str) -> None:
    paths, headers = load()
    found = {}
    for program in (PYTHON, STUB):
        with ExitStack() as stack:
            running = []
            for number in range(count):
                place = Path(folder) / f"{program.name}-{number}"
                place.mkdir()
                command = ["unshare", "-m", "-p", "-i", "-u", "--fork", "--kill-child", "sh", "-ec"]
                inside = [*command, CONTAINER, place, program, "-c", SERVER]
                pid, port = stack.enter_context(serving(inside, environ))
                running.append((children(pid)[0], port))
            for _, port in running:
                for path in (*paths, "/collect"):
                    get(port, path, headers)
            figures = [pss(pid) for pid, _ in running]
            if program == STUB and not all(
                environ["PASTURE_IMAGE"] in Path(f"/proc/{pid}/maps").read_text()
                for pid, _ in running
            ):
                raise click.ClickException("a container did not start out of the image")
        total, private = (sum(column) for column in zip(*figures, strict=True))
        found[program] = total
        click.echo(
            f"{count} containers, {program.name:15} PSS {total / 1e6:7.0f} MB, each "
            f"{total / count / 1e6:5.1f} MB, of it private {private / count / 1e6:5.1f} MB"
        )
    click.echo(f"ratio of PSS {found[STUB] / found[PYTHON]:.3f}")


def show_airflow(folder: str, rounds: int) -> None:
    """Its modules go through the whole environment, so all of it is the image's, too."""
    environ = {**environment(folder, Path(folder)), "AIRFLOW_HOME": folder}
    migrate = [str(BIN / "airflow"), "db", "migrate"]
    subprocess.run(migrate, env=environ, check=True, stdout=subprocess.DEVNULL)
    names = (word for name in environ for word in ("--env", name))
    build(environ, "--preload", API_MODULES, *names)
    show_starts("Airflow's API", first_health, environ, rounds)


def show_programs(part: str, folder: str, rounds: int, sessions: int, kernels: int) -> None:
    """Starts of small programs; sessions, also of a rehearsed image; kernels of Jupyter."""
    environ = {**environment(folder, PACKAGES), "IPYTHONDIR": f"{folder}/ipython"}
    for source, words in image_sessions.STARTS.items() if part in ("all", "times") else ():
        build(environ, *words)
        require_started(environ)
        image_sessions.show_times(PYTHON, STUB, source, environ, rounds)
    if part in ("all", "sessions"):
        totals = {}
        modules = ("--preload", image_sessions.SESSION_MODULES)
        rehearsed = (*modules, "--rehearse", str(image_sessions.REHEARSAL))
        for name, words in (("rehearsed", rehearsed), ("image", modules)):
            build(environ, *words)
            require_started(environ)
            totals[name] = image_sessions.pss_of_sessions(STUB, environ, sessions)
        totals["fork server"] = image_sessions.pss_of_fork_server(PYTHON, environ, sessions)
        totals["python"] = image_sessions.pss_of_sessions(PYTHON, environ, sessions)
        image_sessions.show_memory(totals, sessions)
    if part in ("all", "kernels"):
        build_rehearsed(environ, image_sessions.KERNEL, "--allow=output", "--allow=folder")
        require_started(environ)
        image_sessions.show_kernels(PYTHON, STUB, environ, kernels)


@click.command()
@click.option(
    "--part",
    type=click.Choice(
        ["all", "times", "sessions", "kernels", "site", "pandas", "containers", "airflow", "shell"]
    ),
    default="all",
    help="airflow: by an interpreter that has apache-airflow and pasture[image]. shell: torch, "
    "transformers and spaCy in ten terminals, in environments of their own. Neither is in all.",
)
@click.option("--rounds", default=7, show_default=True)
@click.option("--containers", default=20, show_default=True)
@click.option("--sessions", default=50, show_default=True)
@click.option("--kernels", default=100, show_default=True)
def main(part: str, rounds: int, containers: int, sessions: int, kernels: int) -> None:
    """Starts of programs, of kernels and of the bundled site; PSS of sessions and containers."""
    if part == "airflow":
        with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as folder:
            show_airflow(folder, rounds)
        return
    if part == "shell":
        with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as folder:
            for name in image_shell.PROGRAMS:
                image_shell.show(name, Path(folder))
        return
    if part in ("all", "times", "sessions", "kernels"):
        with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as folder:
            show_programs(part, folder, rounds, sessions, kernels)
    if part in ("times", "sessions", "kernels"):
        return
    subprocess.run([PYTHON, SITE / "manage.py", "fill"], check=True, stdout=subprocess.DEVNULL)
    warm = [f"--warm-file={SITE / 'var' / name}" for name in ("urls.txt", "headers.txt")]
    with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as folder:
        if part in ("all", "pandas"):
            environ = environment(folder, PACKAGES)
            build(environ, "--preload", "pandas,sklearn.linear_model")
            show_starts("pandas and sklearn", first_fit, environ, rounds)
        if part in ("all", "site", "containers"):
            environ = environment(folder, SITE)
            build(environ, "--preload", "wsgiref.simple_server,meadow.wsgi", *warm)
        if part in ("all", "site"):
            show_starts("bundled site", first_answer, environ, rounds)
        if part in ("all", "containers"):
            show_containers(environ, containers, folder)


if __name__ == "__main__":
    main()
