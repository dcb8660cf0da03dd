"""The program that starts an interpreter: `pasture-python` where there is an image to start out of.

For first starts and for those of a server that starts itself again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLE = "PASTURE_IMAGE"
"""Names the image: a file, `auto`, or `0` for none. Without it the environment's own counts."""

STUB = "pasture-python"


def starter(python: str = sys.executable, environ: Mapping[str, str] = os.environ) -> str:
    """Path of `pasture-python` beside an interpreter; without an image the interpreter's own."""
    stub = os.path.join(os.path.dirname(python), STUB)  # noqa: PTH118, PTH120
    is_wanted = environ.get(VARIABLE) or os.path.exists(f"{stub}.img")  # noqa: PTH110
    return stub if is_wanted and os.access(stub, os.X_OK) else python
