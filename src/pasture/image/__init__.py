"""Names of `pasture_image` that users import, which is a distribution of its own.

Holds the two names that a preloaded module or a command line may have: `pasture.image.jupyter` and
`pasture.image.rehearsal`.
"""

from importlib.util import find_spec

if find_spec("pasture_image") is None:
    raise ModuleNotFoundError(
        "images are a package of their own, which is not installed: pip install 'pasture[image]'",
        name="pasture_image",
    )
