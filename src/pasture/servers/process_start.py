"""Processes that a program forks by itself, sealed where only the environment asks for it.

Importing it is the switch: `PASTURE=seal python train.py` comes here at the first `os.fork`,
of any library. The program works in between, so it is sealed once. Its own children, should they
start some, are not sealed again. With PASTURE_FORK_SPAWNED it comes here before the first process
is spawned, too.
"""

from __future__ import annotations

from pasture.serving import spawning
from pasture.serving.sealer import has_sealer, is_off, seal_before_forks
from pasture.serving.settings import settings_or_end


def install() -> None:
    """Seal this process before it first forks, unless an engine does that."""
    settings = settings_or_end()
    if not has_sealer():
        seal_before_forks(settings, works=True, yields=True)
    if settings.fork_spawned:
        spawning.install()


if not is_off():
    install()
