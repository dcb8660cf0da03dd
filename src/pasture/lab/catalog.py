"""The experiments by name, in the order in which they are run and told."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pasture.lab import micro
from pasture.lab.experiment import Experiment

_ALL = (micro.EXPERIMENT,)

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({e.name: e for e in _ALL})
"""Every experiment."""
