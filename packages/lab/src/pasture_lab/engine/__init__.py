"""What an experiment is, how its runs are kept, and how they are judged."""

from pasture_lab.engine.experiment import Experiment, Options
from pasture_lab.engine.runner import LabResult, run_lab
from pasture_lab.engine.store import Store

__all__ = ["Experiment", "LabResult", "Options", "Store", "run_lab"]
