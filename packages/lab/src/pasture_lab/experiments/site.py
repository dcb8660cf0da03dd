"""site: the curves of the web server on real Django sites, which the studies left open.

Setting, published figures and rules are in `site.toml`. The runs are those of `pasture try`:
gunicorn, its load, samples over the requests. The bundled site is the repository's `demo/`; a
Wagtail site is fetched and filled by `wagtail`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pasture.errors import NotMeasurable, ServerFailed
from pasture.warmup.requests import Header, Request, read_requests
from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Bench, Options, Part
from pasture_lab.engine.figures import Measured, curve
from pasture_lab.processes import side_table, wagtail
from pasture_lab.processes.program import environment, run_to_end
from pasture_lab.processes.server import median
from pasture_tools.display.progress import Event, Moved
from pasture_tools.trial import TrialPlan, run_trial
from pasture_tools.trial.measurement import Run

_POLICIES = ("stock", "freeze", "side-table", "seal")
_WORKERS = 4
_REQUESTS, _QUICK_REQUESTS = 5_000, 300
_SITES = (
    {"prefix": "", "site": "bundled site", "without": ""},
    {"prefix": "wagtail-", "site": "Wagtail site", "without": "run with --wagtail"},
)
"""The sites of the rows and plots."""


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
    is_own = policy == side_table.SIDE_TABLE.name
    plan = TrialPlan(
        app=site.app,
        policies=("stock" if is_own else policy,),
        workers=_WORKERS,
        requests=requests,
        urls=site.urls,
        headers=site.headers,
        env=site.env,
        chdir=site.folder,
        server_args=("-c", side_table.__file__) if is_own else (),
        log_dir=bench.log("trial").with_suffix(""),
    )

    def pass_on(event: Event) -> None:
        bench.pause(0)
        if isinstance(event, Moved) and event.done is not None:
            bench.report(event.done / requests)

    result = run_trial(plan, on_event=pass_on)
    run = result.policies[0].runs[0]
    if is_own and (run.report or {}).get("policy") != policy:
        raise ServerFailed(f"the server did not run under {policy}")
    return _from_run(run, result.notes)


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


EXPERIMENT = read_experiment(Path(__file__).with_suffix(".toml"), parts=_parts, each=_SITES)
