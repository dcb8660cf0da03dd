"""`make bench-explain-site`: the causes of private pages on the bundled site, by policy.

Each policy runs under gunicorn with two workers, which answer the site's own requests; then
`pasture explain` looks at the worker with the most private memory. Prints one table, a column
a policy; ends with status 1 if the causes of one do not add up to what the kernel counts as
private within 2%, or if more than 5% of its bytes is unknown.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import click

from benchmarks.site import DATA, SITE, fill_site
from pasture.warmup.requests import read_requests

TIMEOUT_S = 120
CLIENTS = 2
MB = 1e6
SUM_TOLERANCE = 0.02
MAX_UNKNOWN = 0.05
Document = dict[str, Any]


@contextmanager
def server(policy: str, folder: Path, snapshot: bool) -> Iterator[tuple[int, int]]:
    """A gunicorn of two workers; yields its pid and port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = fill_site()
    warm = folder / "warm.txt"
    warm.write_text((DATA / "urls.txt").read_text() + (DATA / "headers.txt").read_text())
    command = [
        *(sys.executable, "-m", "pasture", "run", "--policy", policy, "--warm-file", str(warm)),
        *("gunicorn", "meadow.wsgi:application", "-w", "2", "-b", f"127.0.0.1:{port}"),
    ]
    environ = {**os.environ, **site}
    if snapshot:
        environ["PASTURE_SNAPSHOT"] = str(folder / f"snapshot-{policy}")
    with (folder / f"{policy}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=SITE, env=environ, stdout=log, stderr=log)
    try:
        wait_for_answers(process, port)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def wait_for_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = monotonic() + TIMEOUT_S
    while process.poll() is None and monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        sleep(0.2)
    raise click.ClickException("the server did not start")


def send(port: int, count: int) -> None:
    """Send the site's requests, over as many connections at once as there are clients."""
    walk, common = read_requests(DATA / "urls.txt"), read_requests(DATA / "headers.txt")
    headers = dict((*walk.headers, *common.headers))
    paths = islice(cycle([request.path for request in walk.requests]), count)
    while batch := list(islice(paths, CLIENTS)):
        open_now = [http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S) for _ in batch]
        for connection, path in zip(open_now, batch, strict=True):
            connection.request("GET", path, headers=headers)
        for connection in open_now:
            connection.getresponse().read()
            connection.close()


def explained(policy: str, requests: int, snapshot: bool) -> Document:
    """The document of `pasture explain` for one policy."""
    with tempfile.TemporaryDirectory() as name, server(policy, Path(name), snapshot) as (pid, port):
        send(port, requests)
        file = Path(name) / "found.json"
        command = [sys.executable, "-m", "pasture", "explain", str(pid), "--json", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        document: Document = json.loads(file.read_text(encoding="utf-8"))
        return document


def rows(found: Sequence[Document]) -> Iterator[tuple[str, ...]]:
    """Lines of the table: a cause, and its MB and pages for each policy."""
    causes = sorted(found[0]["causes"], key=lambda cause: -found[0]["causes"][cause]["bytes"])
    for cause in causes:
        shares = [document["causes"][cause] for document in found]
        if any(share["os_pages"] for share in shares) or cause == "unknown":
            yield cause, *(f"{s['bytes'] / MB:.2f} ({s['os_pages']:,})" for s in shares)
    sums = [(d["explained_bytes"] / MB, d["os_pages"]) for d in found]
    yield "**all causes**", *(f"**{size:.2f}** ({pages:,})" for size, pages in sums)
    yield "private in smaps_rollup", *(f"{d['private_bytes'] / MB:.2f}" for d in found)


def is_right(document: Document) -> bool:
    off = abs(document["explained_bytes"] / document["private_bytes"] - 1)
    unknown = document["causes"]["unknown"]["bytes"] / document["private_bytes"]
    return bool(off <= SUM_TOLERANCE and unknown <= MAX_UNKNOWN)


@click.command(help=__doc__)
@click.option("--requests", default=1000, show_default=True, help="In all.")
@click.option("--policy", "policies", multiple=True, default=("stock", "freeze", "seal"))
@click.option("--snapshot/--no-snapshot", default=False, help="Let the parent write a snapshot.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All documents.")
def main(requests: int, policies: tuple[str, ...], snapshot: bool, json_file: Path | None) -> None:
    found = [explained(policy, requests, snapshot) for policy in policies]
    click.echo("| " + " | ".join(("cause", *policies)) + " |")
    click.echo("| --- " * (1 + len(policies)) + "|")
    for row in rows(found):
        click.echo("| " + " | ".join(row) + " |")
    if json_file is not None:
        json_file.write_text(json.dumps(dict(zip(policies, found, strict=True))), encoding="utf-8")
    sys.exit(not all(map(is_right, found)))


if __name__ == "__main__":
    main()
