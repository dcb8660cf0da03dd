"""growth: memory of a worker against the requests that it served.

Owns the one worker that serves all requests. Setting, published figures and rules are in
`growth.toml`; the site is `instagram_site`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Bench, Options, Part
from pasture_lab.engine.figures import Figures, Measured, curve
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
            bench.report(number / _STEPS)
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


EXPERIMENT = read_experiment(Path(__file__).with_suffix(".toml"), parts=_parts, derive=_derive)
