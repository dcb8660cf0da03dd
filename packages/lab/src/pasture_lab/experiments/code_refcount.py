"""code-refcount: attempt 1 of January 2017, reference counting of code objects switched off.

Setting, published figure and rule are in `code_refcount.toml`; the site is `instagram_site`'s,
the switch `sites/immortal_code.py`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from pasture.errors import NotMeasurable, ServerFailed
from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Bench, Options, Part
from pasture_lab.engine.figures import Measured
from pasture_lab.measurements import instagram_site
from pasture_lab.measurements.instagram_site import Variant
from pasture_tools.launch.session import tail

_IMMORTAL = {"LAB_CODE": "1"}
_VARIANTS = (
    Variant("stock"),
    Variant("immortal-code", more=_IMMORTAL),
    Variant("threshold-0", gc="threshold-0"),
    Variant("threshold-0-immortal-code", gc="threshold-0", more=_IMMORTAL),
)


def _parts(options: Options) -> tuple[Part, ...]:
    seconds, requests = (6.0, 200) if options.quick else (15.0, 1000)
    key = {"seconds": seconds, "requests": requests, "load": instagram_site.LOAD}
    return tuple(
        Part(
            variant.name,
            seconds + 3 + requests / 400,
            partial(_measure, variant, seconds, requests),
            key,
        )
        for variant in _VARIANTS
    )


def _measure(variant: Variant, seconds: float, requests: int, bench: Bench) -> Measured:
    if variant.more and sys.version_info < (3, 12):
        raise NotMeasurable(
            "this interpreter has no immortal objects", hint="use CPython 3.12 or newer"
        )
    measured = instagram_site.fresh_worker(variant, seconds, requests, bench)
    if not variant.more:
        return measured
    return replace(measured, figures={**measured.figures, "codes": immortal_codes(bench)})


def immortal_codes(bench: Bench) -> int:
    """How many code objects the site says it made immortal.

    Raises:
        ServerFailed: it says nothing, so that a comparison would show nothing either.
    """
    log = bench.log("server").read_text(errors="replace")
    found = re.search(r"^immortal code objects: (\d+)$", log, re.MULTILINE)
    if found is None or found[1] == "0":
        raise ServerFailed("no code object became immortal", hint="its log ends with\n" + tail(log))
    return int(found[1])


EXPERIMENT = read_experiment(Path(__file__).with_suffix(".toml"), parts=_parts)
