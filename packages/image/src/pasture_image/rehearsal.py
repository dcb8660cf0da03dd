"""`rehearse`: has a function rehearse what programs out of an image do."""

from pasture_image.inside.rehearsal import rehearse

__all__ = ["rehearse"]
