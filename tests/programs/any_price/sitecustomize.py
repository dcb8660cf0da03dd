"""Reforks go on whatever they save, in each process that has this folder in PYTHONPATH."""

from pasture.refork import schedule

schedule.MIN_SAVING = -100.0
