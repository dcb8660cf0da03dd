"""growth: memory of a worker against the requests that it served.

Owns setting, published figures and rules, and one worker that serves all requests; the site
is `instagram_site`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pasture_lab.engine.experiment import Bench, Experiment, Options, Part, Plot, Row
from pasture_lab.engine.figures import Figures, Measured, curve
from pasture_lab.engine.rule import Rule
from pasture_lab.measurements.instagram_site import Variant
from pasture_lab.processes.client import burst
from pasture_lab.processes.server import median, serving

_VARIANTS = (
    Variant("gc-off", gc="disable"),
    Variant("explicit", gc="explicit"),
    Variant("stock"),
    Variant("freeze", policy="freeze"),
    Variant("seal", policy="seal"),
)
_REQUESTS, _QUICK_REQUESTS, _STEPS = 3_000, 900, 30
_LOAD: Mapping[str, str] = {
    "LAB_SHELF": "150000",
    "LAB_REMEMBER": "600",
    "LAB_MOST": "300",
    "LAB_GARBAGE": "2600",
}
"""Cyclic garbage of 200 kB a request, as published: 600 MB over 3,000 requests."""


def _parts(options: Options) -> tuple[Part, ...]:
    requests = _QUICK_REQUESTS if options.quick else _REQUESTS
    return tuple(
        Part(
            variant.name,
            4 + requests / 220,
            partial(_measure, variant, requests),
            {"requests": requests, "load": _LOAD},
        )
        for variant in _VARIANTS
    )


def _measure(variant: Variant, requests: int, bench: Bench) -> Measured:
    step = requests // _STEPS
    with serving(bench, variant.plan(1, _LOAD)) as server:
        samples = [server.sample(0)]
        failed = 0
        for number in range(1, _STEPS + 1):
            failed += burst(server.port, step, threads=1)
            samples.append(server.sample(number * step))
            bench.pause(0)
            bench.tell(number / _STEPS)
    served = [s.requests for s in samples]
    private = curve(served, [median(s, lambda m: m.private_bytes) for s in samples])
    shared = curve(served, [median(s, lambda m: m.shared_bytes) for s in samples])
    grown = private.y[-1] - private.y[0]
    return Measured(
        {
            "growth_bytes": grown,
            "growth_a_request_bytes": grown / requests,
            "linearity": private.linearity,
            "shared_start_bytes": shared.y[0],
            "shared_end_bytes": shared.y[-1],
            "requests": requests,
        },
        {"private_bytes": private, "shared_bytes": shared},
        (f"{failed} of {requests} requests failed",) if failed else (),
    )


def _derive(figures: Figures) -> Figures:
    if not {"gc-off.growth_bytes", "stock.growth_bytes"} <= set(figures):
        return {}
    more = figures["gc-off.growth_bytes"] - figures["stock.growth_bytes"]
    return {"more_bytes": more, "more_a_request_bytes": more / figures["gc-off.requests"]}


EXPERIMENT = Experiment(
    name="growth",
    title="Memory of a worker against requests served",
    source="Instagram, Copy-on-write friendly Python garbage collection, December 2017",
    setting=(
        "Memory of one worker while it serves 3,000 requests: without the collector, with an "
        "explicit collection now and then, with CPython's default; then with gc.freeze() "
        "before the fork."
    ),
    differences=(
        "A small Django site with 150,000 records in memory and one worker. Each request leaves "
        "cyclic garbage, and keeps 600 objects up to 300 requests.",
        "Memory is the worker's private memory: what one more worker costs.",
        "Explicit means gc.disable() and gc.collect() every 100 requests.",
    ),
    needs=("django", "pyuwsgi"),
    parts=_parts,
    derive=_derive,
    rows=(
        Row(
            what="without the collector: growth",
            published="about 600 MB more after 3,000 requests",
            shows="{more_bytes} more after {gc-off.requests} requests "
            "({gc-off.growth_bytes} against {stock.growth_bytes})",
            rule=Rule(
                says="growth, off / default",
                of="gc-off.growth_bytes",
                to="stock.growth_bytes",
                least=2,
            ),
        ),
        Row(
            what="without the collector: shape",
            published="linear",
            shows="coefficient of determination {gc-off.linearity}",
            rule=Rule(
                says="coefficient of determination of a straight line",
                of="gc-off.linearity",
                least=0.97,
                published=1.0,
            ),
        ),
        Row(
            what="explicit collections",
            shows="{explicit.growth_a_request_bytes} a request, shared "
            "{explicit.shared_start_bytes} to {explicit.shared_end_bytes}",
        ),
        Row(
            what="gc.freeze(): shared memory",
            published="stays",
            shows="{freeze.shared_start_bytes} to {freeze.shared_end_bytes}; default "
            "{stock.shared_start_bytes} to {stock.shared_end_bytes}",
            rule=Rule(
                says="shared after / before, frozen",
                of="freeze.shared_end_bytes",
                to="freeze.shared_start_bytes",
                least=0.8,
                published=1.0,
            ),
        ),
        Row(
            what="gc.freeze(): growth a request",
            published="about 50% lower",
            shows="{freeze.growth_bytes} against {stock.growth_bytes} by default",
            rule=Rule(
                says="growth a request, frozen / default",
                of="freeze.growth_a_request_bytes",
                to="stock.growth_a_request_bytes",
                most=0.75,
                published=0.5,
            ),
        ),
        Row(
            what="seal, for comparison",
            shows="grows by {seal.growth_bytes}, shared {seal.shared_start_bytes} to "
            "{seal.shared_end_bytes}",
        ),
    ),
    plots=(
        Plot(
            key="private_bytes",
            title="Private memory of a worker",
            caption="A straight line is garbage that nobody collects; a step is a collection.",
            x_title="requests served",
            y_title="MB",
        ),
        Plot(
            key="shared_bytes",
            title="Shared memory of a worker",
            caption="A fall is a page that was written.",
            x_title="requests served",
            y_title="MB",
        ),
    ),
)
