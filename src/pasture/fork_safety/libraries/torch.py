"""PyTorch: CUDA does not survive a fork."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pasture.fork_safety.hazard import Hazard
from pasture.fork_safety.library import Library


def _hazards() -> Iterator[Hazard]:
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and getattr(cuda, "_initialized", False):
        yield Hazard("CUDA, which is initialized", "use the GPU in workers only")


CARD = Library(package="torch", hazards=_hazards)
