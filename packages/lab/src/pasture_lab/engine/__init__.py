"""Experiments, their kept runs, and their verdicts."""

from pasture_lab.engine.experiment import Experiment, Options
from pasture_lab.engine.runner import LabResult, run_lab
from pasture_lab.engine.store import Store

__all__ = ["Experiment", "LabResult", "Options", "Store", "run_lab"]
