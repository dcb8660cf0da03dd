"""site: the curves of the web server on real Django sites, which the studies left open.

Owns setting, published figures and rules. The runs are those of `pasture try`: gunicorn,
Locust, samples over the requests. The bundled site is the repository's `demo/`; a Wagtail site
is fetched and filled by `wagtail`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pasture.errors import NotMeasurable, ServerFailed
from pasture.trial import TrialPlan, events, run_trial
from pasture.trial.measurement import Run
from pasture.warmup.requests import Header, Request, read_requests
from pasture_lab.engine.experiment import Bench, Experiment, Options, Part, Plot, Row
from pasture_lab.engine.figures import Measured, curve
from pasture_lab.engine.rule import Rule
from pasture_lab.processes import wagtail
from pasture_lab.processes.program import environment, run_to_end
from pasture_lab.processes.server import median

_POLICIES = ("stock", "freeze", "side-table", "seal")
_WORKERS = 4
_REQUESTS, _QUICK_REQUESTS = 5_000, 300


@dataclass(frozen=True, slots=True)
class Site:
    """A site that is filled and can be served."""

    app: str
    folder: Path
    env: Mapping[str, str]
    urls: tuple[Request, ...]
    headers: tuple[Header, ...] = ()


def _parts(options: Options) -> tuple[Part, ...]:
    requests = _QUICK_REQUESTS if options.quick else _REQUESTS
    sites: dict[str, Callable[[Bench], Site]] = {"": partial(_bundled, options.site)}
    if options.wagtail:
        sites["wagtail-"] = _wagtail
    return tuple(
        Part(
            f"{prefix}{policy}",
            13 + requests / 110,
            partial(_measure, make, policy, requests),
            {"requests": requests},
        )
        for prefix, make in sites.items()
        for policy in _POLICIES
    )


def _measure(make: Callable[[Bench], Site], policy: str, requests: int, bench: Bench) -> Measured:
    site = make(bench)
    plan = TrialPlan(
        app=site.app,
        policies=(policy,),
        workers=_WORKERS,
        requests=requests,
        urls=site.urls,
        headers=site.headers,
        env=site.env,
        chdir=site.folder,
        log_dir=bench.log("trial").with_suffix(""),
    )

    def tell(event: events.Event) -> None:
        bench.pause(0)
        if isinstance(event, events.LoadMoved):
            bench.tell(event.requests / requests)

    result = run_trial(plan, on_event=tell)
    return _from_run(result.policies[0].runs[0], result.notes)


def _from_run(run: Run, notes: tuple[str, ...]) -> Measured:
    samples = [sample for sample in run.series if sample.workers]
    served = [sample.requests for sample in samples]
    private = curve(served, [median(s, lambda m: m.private_bytes) for s in samples])
    shared = curve(served, [median(s, lambda m: m.shared_bytes) for s in samples])
    return Measured(
        {
            "private_end_bytes": run.private_bytes_median,
            "shared_start_bytes": shared.y[0],
            "shared_end_bytes": median(run.final, lambda m: m.shared_bytes),
            "total_pss_bytes": run.total_pss_bytes,
            "requests_a_second": run.load.requests_per_s,
            "p99_s": run.load.p99_ms / 1000,
            "stop_s": run.shutdown.seconds,
            "peak_ratio": run.shutdown.peak_ratio,
        },
        {"private_bytes": private, "shared_bytes": shared},
        notes,
    )


def _bundled(folder: Path | None, bench: Bench) -> Site:
    """The site of the repository, filled into a database of the lab's own."""
    if folder is None:
        raise NotMeasurable(
            "the bundled site is not part of the package",
            hint="clone the repository, or name its demo/ with --site",
        )
    env = {"MEADOW_DB": str(bench.directory / "meadow.sqlite3")}
    command = [sys.executable, str(folder / "manage.py"), "fill"]
    try:
        run_to_end(bench, command, bench.log("fill"), env=environment(env))
    except (NotMeasurable, ServerFailed) as error:
        raise NotMeasurable(
            f"the bundled site cannot be filled: {error.message}",
            hint="it needs the packages of the group `demo`",
        ) from None
    walk = read_requests(bench.directory / "urls.txt")
    headers = read_requests(bench.directory / "headers.txt").headers
    return Site("meadow.wsgi:application", folder, env, walk.requests, (*walk.headers, *headers))


def _wagtail(bench: Bench) -> Site:
    """A Wagtail site, fetched once and filled for each run."""
    made = wagtail.make(bench)
    return Site("pastures.wsgi:application", made.folder, made.env, made.urls)


def _rows(prefix: str, name: str, without: str = "") -> tuple[Row, ...]:
    def of(figure: str) -> str:
        return f"{prefix}{figure}"

    return (
        Row(
            what=f"{name}: private memory a worker",
            published="left open: a real Django site (the synthetic one: 20% less)",
            shows=f"{{{of('stock.private_end_bytes')}}} stock, "
            f"{{{of('freeze.private_end_bytes')}}} frozen, "
            f"{{{of('side-table.private_end_bytes')}}} with the collector out of line, "
            f"{{{of('seal.private_end_bytes')}}} sealed",
            rule=Rule(
                says="private, sealed / stock",
                of=of("seal.private_end_bytes"),
                to=of("stock.private_end_bytes"),
                most=0.8,
                published=0.8,
            ),
            without=without,
        ),
        Row(
            what=f"{name}: shared memory with requests",
            published="left open (the synthetic one: falls away, flat if patched)",
            shows=f"{{{of('stock.shared_start_bytes')}}} to {{{of('stock.shared_end_bytes')}}} "
            f"stock, {{{of('seal.shared_start_bytes')}}} to {{{of('seal.shared_end_bytes')}}} "
            "sealed",
            rule=Rule(
                says="shared at the end, sealed / stock",
                of=of("seal.shared_end_bytes"),
                to=of("stock.shared_end_bytes"),
                least=1.1,
            ),
            without=without,
        ),
        Row(
            what=f"{name}: requests a second",
            published="left open (the synthetic one: 0.36 to 0.55 of standard)",
            shows=f"{{{of('stock.requests_a_second')}}} stock, "
            f"{{{of('side-table.requests_a_second')}}} with the collector out of line, "
            f"{{{of('seal.requests_a_second')}}} sealed",
            rule=Rule(
                says="requests a second, collector out of line / stock",
                of=of("side-table.requests_a_second"),
                to=of("stock.requests_a_second"),
                most=0.8,
                published=67.9 / 190.8,
            ),
            without=without,
            decides=False,
        ),
        Row(
            what=f"{name}: whole server and its end",
            shows=f"total PSS {{{of('stock.total_pss_bytes')}}} stock, "
            f"{{{of('seal.total_pss_bytes')}}} sealed; stop {{{of('stock.stop_s')}}} with a peak "
            f"of {{{of('stock.peak_ratio')}}} times, {{{of('seal.stop_s')}}} with "
            f"{{{of('seal.peak_ratio')}}}",
        ),
    )


def _plots(prefix: str, name: str) -> tuple[Plot, ...]:
    parts = tuple(f"{prefix}{policy}" for policy in _POLICIES)
    return (
        Plot(
            key="private_bytes",
            title=f"Private memory of a worker, {name}",
            caption="Median worker against requests served by all.",
            parts=parts,
            x_title="requests served by all workers",
            y_title="MB a worker",
        ),
        Plot(
            key="shared_bytes",
            title=f"Shared memory of a worker, {name}",
            caption="A fall is a page that was written.",
            parts=parts,
            x_title="requests served by all workers",
            y_title="MB a worker",
        ),
    )


EXPERIMENT = Experiment(
    name="site",
    title="Real Django sites",
    source="left open by PyPy for forking web servers, 2018",
    setting=(
        "The study's web server served a synthetic application; how a real site would do was "
        "left open. So was a cheaper side table than a hash table, and fewer writes to old "
        "objects: the out-of-line collector's bitmap, and the seal."
    ),
    differences=(
        "The runs are those of `pasture try`: gunicorn with 4 workers, Locust, every page of the "
        "site in turn. Policies that warm up serve each page once before the fork.",
        "A real site keeps next to nothing of a request: the collector of today rarely runs a "
        "full collection, and most of what becomes private is written by reference counts and "
        "the allocator.",
    ),
    needs=("django", "gunicorn", "locust"),
    parts=_parts,
    rows=(*_rows("", "bundled site"), *_rows("wagtail-", "Wagtail site", "run with --wagtail")),
    plots=(*_plots("", "bundled site"), *_plots("wagtail-", "Wagtail site")),
)
