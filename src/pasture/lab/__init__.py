"""`pasture lab`: the published experiments, re-run on this machine.

    from pasture.lab import EXPERIMENTS, Options, Store, run_lab
    result = run_lab([EXPERIMENTS["micro"]], Options(quick=True), Store(Path("results")))

An experiment is one module: its setting, the published figures and their source, and for each
figure the rule that decides whether it was reproduced, written before anything is run.
Layout:

    experiment, figures     what an experiment is, and what one brings back; both frozen
    rule, verdict           pure functions from figures to verdicts
    dismiss, code_refcount, faults, cache, micro, growth, webserver, site
                            the experiments
    runner, store           parts run once, their results kept on disk
    shelf, large_objects    the two applications under load: what is measured on them
    server, client, nginx, httperf, program, cgroup, kit, wagtail
                            the processes at the edge
    sites/, programs/       what those processes run; not imported here
"""

from pasture.lab.catalog import EXPERIMENTS
from pasture.lab.experiment import Experiment, Options
from pasture.lab.runner import LabResult, run_lab
from pasture.lab.store import Store

__all__ = ["EXPERIMENTS", "Experiment", "LabResult", "Options", "Store", "run_lab"]
