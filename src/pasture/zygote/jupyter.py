"""`--preload pasture.zygote.jupyter`: has a zygote load what a kernel of Jupyter has loaded."""

import pasture_zygote.jupyter  # noqa: F401
