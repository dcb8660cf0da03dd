"""Names of the zygote that users import; it is a distribution of its own: `pasture_zygote`.

Holds the two names that a preloaded module or a command line may have: `pasture.zygote.jupyter` and
`pasture.zygote.rehearsal`.
"""

from importlib.util import find_spec

if find_spec("pasture_zygote") is None:
    raise ModuleNotFoundError(
        "the zygote is a package of its own, which is not installed: pip install 'pasture[zygote]'",
        name="pasture_zygote",
    )
