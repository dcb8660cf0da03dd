"""code-refcount: attempt 1 of January 2017, reference counting of code objects switched off.

Owns setting, published figure and rules; the site is `instagram_site`'s, the switch
`sites/immortal_code.py`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial

from pasture.errors import NotMeasurable, ServerFailed
from pasture.trial.diagnosis import tail
from pasture_lab.engine.experiment import Bench, Experiment, Options, Part, Plot, Row
from pasture_lab.engine.figures import Measured
from pasture_lab.engine.rule import Rule
from pasture_lab.measurements import instagram_site
from pasture_lab.measurements.instagram_site import Variant

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


EXPERIMENT = Experiment(
    name="code-refcount",
    title="No reference counting on code objects",
    source="Instagram, Dismissing Python garbage collection, January 2017",
    setting=(
        "The first suspicion was reference counting: CPython 2.7 was changed to count no "
        "references to code objects, and shared memory stayed as bad as before."
    ),
    differences=(
        "Code objects are made immortal before the fork (CPython 3.12 and newer), which has the "
        "same effect without a change of the interpreter.",
        "The same with the collector switched off shows what code objects cost by themselves, "
        "once the collector does not hide it.",
    ),
    needs=("django", "pyuwsgi"),
    parts=_parts,
    rows=(
        Row(
            what="shared memory without reference counts in code objects",
            published="no change",
            shows="{stock.shared_end_bytes} with, {immortal-code.shared_end_bytes} without, in "
            "{immortal-code.codes} code objects",
            rule=Rule(
                says="shared, without / with reference counts in code",
                of="immortal-code.shared_end_bytes",
                to="stock.shared_end_bytes",
                least=0.95,
                most=1.05,
                published=1.0,
            ),
        ),
        Row(
            what="the same with the collector off",
            shows="{threshold-0.shared_end_bytes} with, "
            "{threshold-0-immortal-code.shared_end_bytes} without; private "
            "{threshold-0.private_end_bytes} and {threshold-0-immortal-code.private_end_bytes}",
        ),
    ),
    plots=(
        Plot(
            key="shared_bytes",
            title="Shared memory of a fresh worker",
            caption="With reference counts in code objects and without, collector on and off.",
            x_title="seconds",
            y_title="MB a worker",
        ),
    ),
)
