"""`--preload pasture_image.jupyter`: has an image hold what a kernel of Jupyter has loaded."""

import pasture_image.inside.jupyter  # noqa: F401
