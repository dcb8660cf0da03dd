"""Private memory of workers of other people's sites: `pasture run --auto` and the ways by hand.

    python -m benchmarks.auto wagtail chat --requests 2000

Each server is asked for the site's pages, as often in each way, and started again for the second
start of `--auto`. A worker's memory is taken at the end; its ratio is to the best way by hand.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import requests
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.agents.services import service
from matrix.sites.catalog import Site, load_sites
from matrix.sites.environments import make_environment, restore_data, variables
from pasture.launch.ports import LOOPBACK, free_port
from pasture.launch.session import Group
from pasture.proc import tree
from pasture.proc.smaps import read_memory
from pasture.servers.engines import ENGINES

MB = 1e6
CLIENTS = 4
REFORK = "50,500,2000"
BY_HAND = ("sealed", "list", "refork", "list and refork")
WAYS = (*BY_HAND, "auto, first start", "auto, second start")


def variables_of(way: str, site: Site, learned: Path) -> Mapping[str, str]:
    reforks = ENGINES[site.serve[0]].reforks
    found = {"PASTURE_WARM": "\n".join(site.warm)} if "list" in way else {}
    if reforks and ("refork" in way or "auto" in way):
        found |= {"PASTURE_REFORK": REFORK, "PASTURE_POLICY": "seal"}
    return found | ({"PASTURE_AUTO": str(learned)} if "auto" in way else {})


@contextmanager
def offered(site: Site) -> Iterator[dict[str, str]]:
    """What the site's services offer, and its data as they were first made."""
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for name in site.services:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            place.chmod(0o755)
            found |= stack.enter_context(service(name, site.python_program, place)).variables
        restore_data(site, found)
        yield found


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
    with offered(site) as services:
        port = free_port()
        env = variables(site, {**services, "port": str(port)})
        env |= variables_of(way, site, learned)
        words = [site.filled(word, {**services, "port": str(port)}) for word in site.serve]
        command = [str(site.environment / "bin" / "pasture"), "run", *words]
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
            learned = Path(folder) / "learned.profile"
            found = {way: measure(site, way, count, learned) for way in WAYS}
        best = min(found[way] for way in BY_HAND)
        ratios = (f"{found[way] / best:.2f}" for way in WAYS if way not in BY_HAND)
        table.add_row(site.name, *(f"{found[way] / MB:.1f}" for way in WAYS), *ratios)
        Console(width=160).print(table)


if __name__ == "__main__":
    main()
