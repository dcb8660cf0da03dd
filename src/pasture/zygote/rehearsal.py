"""`rehearse`: has a function rehearse what programs of a zygote do."""

from pasture_zygote.rehearsal import rehearse

__all__ = ["rehearse"]
