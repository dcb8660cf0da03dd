"""dismiss: the collector switched off, in the four ways of January 2017.

Owns setting, published figures and rules; the site and its load are `instagram_site`'s.
"""

from __future__ import annotations

from functools import partial

from pasture_lab.engine.experiment import Experiment, Options, Part, Plot, Row
from pasture_lab.engine.figures import Figures
from pasture_lab.engine.rule import Rule
from pasture_lab.measurements import instagram_site
from pasture_lab.measurements.instagram_site import Variant

_VARIANTS = (
    Variant("stock"),
    Variant("disable", gc="disable"),
    Variant("disable-undone", gc="disable-undone"),
    Variant("threshold-0", gc="threshold-0"),
    Variant("threshold-0-leave", gc="threshold-0-leave"),
    Variant("seal", policy="seal"),
)
_STOPPED = ("threshold-0", "threshold-0-leave", "seal")


def _parts(options: Options) -> tuple[Part, ...]:
    seconds, requests, stopped = (6.0, 1000, 800) if options.quick else (15.0, 3000, 4000)
    key = {"seconds": seconds, "requests": requests, "load": instagram_site.LOAD}
    fresh = [
        Part(
            variant.name,
            seconds + 3 + requests / 400,
            partial(instagram_site.fresh_worker, variant, seconds, requests),
            key,
        )
        for variant in _VARIANTS
    ]
    stops = [
        Part(
            f"stop-{variant.name}",
            6 + stopped / 300,
            partial(instagram_site.stop, variant, stopped),
            {"requests": stopped, "load": instagram_site.LOAD},
        )
        for variant in _VARIANTS
        if variant.name in _STOPPED
    ]
    return (*fresh, *stops)


def _derive(figures: Figures) -> Figures:
    """Workers that fit in the memory that stock takes, as in `pasture try`; and what is saved."""
    found: dict[str, float] = {}
    if "stock.total_pss_bytes" not in figures:
        return found
    stock = figures["stock.total_pss_bytes"]
    for name in ("threshold-0", "threshold-0-leave", "seal"):
        if f"{name}.once_bytes" in figures:
            room = stock - figures[f"{name}.once_bytes"]
            fit = room / figures[f"{name}.private_end_bytes"]
            found[f"{name}.capacity_ratio"] = fit / instagram_site.WORKERS
            found[f"{name}.saved_bytes"] = (
                figures["stock.private_end_bytes"] - figures[f"{name}.private_end_bytes"]
            )
    return found


EXPERIMENT = Experiment(
    name="dismiss",
    title="The garbage collector dismissed",
    source="Instagram, Dismissing Python garbage collection, January 2017",
    setting=(
        "Django on CPython 2.7 under uWSGI in pre-fork mode, dozens of workers a host. Shared "
        "memory of a fresh worker was watched for each attempt to keep the collector from "
        "writing; then workers were restarted."
    ),
    differences=(
        "CPython 3 and a small Django site with 150,000 records in memory, 4 workers (8 for the "
        "restart), 300 requests a second. Each request builds 4,000 objects and keeps 300, up to "
        "150 requests: without new objects CPython, then as now, runs no full collection.",
        "Throughput is requests a second of the workers' processor time, since the machine is "
        "shared with the load.",
        "The time of a restart is that until the workers have ended: uWSGI's master looks once "
        "a second whether they have, so that the server takes a second at least.",
        "The memory of a host or a fleet is that of this one server; gains follow as a ratio.",
        "The machine has memory to spare: a restart that un-shares everything costs time here, "
        "and not the page cache.",
    ),
    needs=("django", "pyuwsgi"),
    parts=_parts,
    derive=_derive,
    rows=(
        Row(
            what="shared memory of a fresh worker",
            published="RSS 250 MB; shared falls from 250 MB to 140 MB within seconds",
            shows="RSS {stock.rss_start_bytes}; shared {stock.shared_start_bytes} to "
            "{stock.shared_end_bytes}",
            rule=Rule(
                says="shared after / before the load",
                of="stock.shared_end_bytes",
                to="stock.shared_start_bytes",
                most=0.8,
                published=140 / 250,
            ),
        ),
        Row(
            what="gc.disable(), undone by a library",
            published="no change",
            shows="shared {disable-undone.shared_end_bytes}, stock {stock.shared_end_bytes}",
            rule=Rule(
                says="shared, disabled and undone / stock",
                of="disable-undone.shared_end_bytes",
                to="stock.shared_end_bytes",
                least=0.9,
                most=1.1,
                published=1.0,
            ),
        ),
        Row(what="gc.disable(), not undone", shows="shared {disable.shared_end_bytes}"),
        Row(
            what="gc.set_threshold(0): shared memory",
            published="140 MB to 225 MB a worker",
            shows="{stock.shared_end_bytes} to {threshold-0.shared_end_bytes}",
            rule=Rule(
                says="shared, threshold 0 / stock",
                of="threshold-0.shared_end_bytes",
                to="stock.shared_end_bytes",
                least=1.25,
                published=225 / 140,
            ),
        ),
        Row(
            what="gc.set_threshold(0): saved on a host",
            published="8 GB less (85 MB of 250 MB a worker)",
            shows="{threshold-0.saved_bytes} of {stock.rss_start_bytes} a worker",
            rule=Rule(
                says="saved a worker / its RSS",
                of="threshold-0.saved_bytes",
                to="stock.rss_start_bytes",
                least=0.15,
                published=85 / 250,
            ),
        ),
        Row(
            what="gc.set_threshold(0): memory of the fleet",
            published="25% less",
            shows="total PSS {stock.total_pss_bytes} to {threshold-0.total_pss_bytes}",
            rule=Rule(
                says="total PSS, threshold 0 / stock",
                of="threshold-0.total_pss_bytes",
                to="stock.total_pss_bytes",
                most=0.9,
                published=0.75,
            ),
        ),
        Row(
            what="gc.set_threshold(0): throughput",
            published="over 10% more",
            shows="{stock.requests_a_cpu_second} to {threshold-0.requests_a_cpu_second} requests a "
            "second of processor time",
            rule=Rule(
                says="requests a CPU second, threshold 0 / stock",
                of="threshold-0.requests_a_cpu_second",
                to="stock.requests_a_cpu_second",
                least=1.05,
                published=1.10,
            ),
        ),
        Row(
            what="restart with finalization: time",
            published="over 60 s instead of under 10 s",
            shows="{stop-threshold-0.workers_stop_s} instead of "
            "{stop-threshold-0-leave.workers_stop_s} for the workers, {stop-threshold-0.stop_s} "
            "and {stop-threshold-0-leave.stop_s} for the server",
            rule=Rule(
                says="time until the workers have ended, with / without finalization",
                of="stop-threshold-0.workers_stop_s",
                to="stop-threshold-0-leave.workers_stop_s",
                least=2,
                published=6.0,
            ),
        ),
        Row(
            what="restart with finalization: writes",
            published="wrote every page",
            shows="{stop-threshold-0.stop_minor_faults} minor faults instead of "
            "{stop-threshold-0-leave.stop_minor_faults}",
            rule=Rule(
                says="minor faults of the stop, with / without finalization",
                of="stop-threshold-0.stop_minor_faults",
                to="stop-threshold-0-leave.stop_minor_faults",
                least=3,
            ),
        ),
        Row(
            what="restart with finalization: memory",
            published="free memory fell to zero",
            shows="total PSS {stop-threshold-0.start_pss_bytes} to "
            "{stop-threshold-0.peak_pss_bytes}; without: "
            "{stop-threshold-0-leave.start_pss_bytes} to {stop-threshold-0-leave.peak_pss_bytes}",
            rule=Rule(
                says="peak of total PSS / before the stop",
                of="stop-threshold-0.peak_ratio",
                least=1.3,
            ),
        ),
        Row(
            what="restart with finalization: page cache",
            published="thrown out",
            never="the machine is not short of memory, and emptying its page cache would hurt "
            "whatever else runs on it",
        ),
        Row(
            what="threshold 0 and os._exit: capacity",
            published="10% more everywhere",
            shows="{threshold-0-leave.capacity_ratio} times as many workers in the same memory",
            rule=Rule(
                says="workers that fit in stock's memory / stock's workers",
                of="threshold-0-leave.capacity_ratio",
                least=1.05,
                published=1.10,
            ),
        ),
        Row(
            what="seal, for comparison",
            shows="shared {seal.shared_end_bytes}, private {seal.private_end_bytes}, total PSS "
            "{seal.total_pss_bytes}, {seal.capacity_ratio} times as many workers, "
            "{seal.requests_a_cpu_second} requests a CPU second; stop {stop-seal.workers_stop_s}, "
            "{stop-seal.stop_minor_faults} minor faults, peak {stop-seal.peak_ratio} times",
        ),
    ),
    plots=(
        Plot(
            key="shared_bytes",
            title="Shared memory of a fresh worker",
            caption="What a worker still has in common with its master, from its first request.",
            x_title="seconds",
            y_title="MB a worker",
        ),
        Plot(
            key="private_bytes",
            title="Private memory of a fresh worker",
            caption="What each further worker costs.",
            x_title="seconds",
            y_title="MB a worker",
        ),
        Plot(
            key="stop_minor_faults",
            title="Minor faults while eight workers are stopped",
            caption="Each is a page that was taken or copied on the way out.",
            kind="bars",
            y_title="faults",
        ),
        Plot(
            key="peak_ratio",
            title="Peak of total PSS while eight workers are stopped",
            caption="Against total PSS before the stop.",
            kind="bars",
            y_title="times",
        ),
    ),
)
