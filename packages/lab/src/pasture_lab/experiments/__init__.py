"""The experiments by name, in the order in which they are run and reported.

Each is a module with its runs and a table of the same name beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pasture_lab.engine.experiment import Experiment
from pasture_lab.experiments import (
    cache,
    code_refcount,
    dismiss,
    faults,
    growth,
    micro,
    site,
    webserver,
)

_ALL = (
    dismiss.EXPERIMENT,
    code_refcount.EXPERIMENT,
    faults.EXPERIMENT,
    cache.EXPERIMENT,
    micro.EXPERIMENT,
    growth.EXPERIMENT,
    webserver.EXPERIMENT,
    site.EXPERIMENT,
)

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({e.name: e for e in _ALL})
"""Every experiment."""
