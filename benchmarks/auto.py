"""Private memory of workers of other people's sites: `pasture run --auto` and the ways by hand.

    python -m benchmarks.auto wagtail chat --requests 2000

Each server is asked for the site's pages, as often in each way, and started again for the second
start of `--auto`. A worker's memory is taken at the end; its ratio is to the best way by hand.
"""

from __future__ import annotations

import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import click
import requests
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.sites.catalog import Site, load_sites
from matrix.sites.environments import make_environment, variables
from matrix.sites.runs import prepared
from pasture.proc import tree
from pasture.proc.smaps import read_memory
from pasture.servers.engines import ENGINES
from pasture_tools.launch.ports import LOOPBACK, free_port
from pasture_tools.launch.session import Group

MB = 1e6
CLIENTS = 4
REFORK = "50,500,2000"
BY_HAND = ("sealed", "list", "refork", "list and refork")
WAYS = (*BY_HAND, "auto, first start", "auto, second start")


def options_of(way: str, site: Site, learned: Path) -> tuple[str, ...]:
    """Of `pasture run`."""
    if way.startswith("auto"):
        return (f"--auto={learned}",)
    pages = (word for page in site.warm for word in ("--warm", page)) if "list" in way else ()
    reforks = "refork" in way and ENGINES[site.serve[0]].reforks
    return (*pages, *(("--policy", "seal", "--refork", REFORK) if reforks else ()))


def ask(base: str, site: Site, count: int) -> None:
    pages = [site.warm[i % len(site.warm)] for i in range(count)]

    def get(page: str) -> None:
        with suppress(requests.ConnectionError):  # a worker that has served enough ends
            answer = requests.get(base + page, timeout=60)
            if answer.status_code >= 500:
                raise click.ClickException(f"{site.name}: {page}: {answer.status_code}")

    for page in site.warm:  # CKAN puts its assets together at the first request, for one client
        get(page)
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(get, pages))


def measure(site: Site, way: str, count: int, learned: Path) -> float:
    """Private bytes of a worker, the median of all, after the given requests."""
    with prepared(site) as services:
        port = free_port()
        env = variables(site, {**services, "port": str(port)})
        words = [site.filled(word, {**services, "port": str(port)}) for word in site.serve]
        command = [
            *(str(site.environment / "bin" / "pasture"), "run"),
            *options_of(way, site, learned),
            *words,
        ]
        log = site.folder / f"auto-{way.replace(', ', '-').replace(' ', '-')}.log"
        log.unlink(missing_ok=True)
        base = f"http://{LOOPBACK}:{port}"

        def answers() -> bool:
            try:
                return requests.get(base + site.ready, timeout=10).status_code < 500
            except requests.RequestException:
                return False

        with Group(command, log=log, env=env, cwd=site.data / site.chdir) as server:
            server.wait_for(answers, "it does not answer", timeout_s=site.start_s)
            ask(base, site, count)
            workers = tree.workers_of(server.pid)
            found = [read_memory(pid) for pid in workers]
            return statistics.median(memory.private_bytes for memory in found if memory)


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--requests", "count", default=2000, show_default=True)
def main(names: tuple[str, ...], count: int) -> None:
    sites = load_sites()
    table = Table(box=box.SIMPLE, title=f"private MB a worker after {count:,} requests")
    for column in ("site", *WAYS, "first", "second, of the best by hand"):
        table.add_column(column)
    for site in [sites[name] for name in names]:
        make_environment(site)
        with tempfile.TemporaryDirectory() as folder:
            learned = Path(folder) / "learned.auto"
            found = {way: measure(site, way, count, learned) for way in WAYS}
        best = min(found[way] for way in BY_HAND)
        ratios = (f"{found[way] / best:.2f}" for way in WAYS if way not in BY_HAND)
        table.add_row(site.name, *(f"{found[way] / MB:.1f}" for way in WAYS), *ratios)
        Console(width=160).print(table)


if __name__ == "__main__":
    main()
