"""dismiss: the collector switched off, in the four ways of January 2017.

Setting, published figures and rules are in `dismiss.toml`; the site and its load are
`instagram_site`'s.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Options, Part
from pasture_lab.engine.figures import Figures
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


EXPERIMENT = read_experiment(Path(__file__).with_suffix(".toml"), parts=_parts, derive=_derive)
