"""The experiments by name, in the order in which they are run and told."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pasture.lab import code_refcount, dismiss, growth, micro, webserver
from pasture.lab.experiment import Experiment

_ALL = (
    micro.EXPERIMENT,
    dismiss.EXPERIMENT,
    code_refcount.EXPERIMENT,
    growth.EXPERIMENT,
    webserver.EXPERIMENT,
)

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({e.name: e for e in _ALL})
"""Every experiment."""
