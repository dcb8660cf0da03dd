"""Processes that a program forks itself, sealed where only the environment asks for it.

Importing this is the switch: `PASTURE=seal python train.py` imports it at the first `os.fork` of
any library. The program works between the forks, so it is sealed once; its children are not sealed
again. With PASTURE_FORK_SPAWNED it is imported before the first process is spawned, too.
"""

from __future__ import annotations

from pasture.serving import spawning
from pasture.serving.sealer import has_sealer, is_off, seal_before_forks
from pasture.serving.settings import settings_or_end


def install() -> None:
    """Seal this process before its first fork, unless an engine does that."""
    settings = settings_or_end()
    if not has_sealer():
        seal_before_forks(settings, works=True, yields=True)
    if settings.fork_spawned:
        spawning.install()


if not is_off():
    install()
