"""Preload module that seals the forkserver of `multiprocessing` before it forks.

    multiprocessing.set_forkserver_preload(["my_module", "pasture.servers.forkserver"])

Importing it is the switch; its place in the list does not matter, because the seal waits
for the first fork. A module of the list that the forkserver cannot import is imported once more
before that fork, which reports it.
"""

import dataclasses
import sys

from pasture.own_values import generators
from pasture.serving import fork_hook
from pasture.serving.learned import without_auto
from pasture.serving.sealer import Sealer, is_off
from pasture.serving.settings import settings_or_end


def _listed() -> tuple[str, ...]:
    """The modules of this forkserver's list; none if it reports failures itself.

    Source: CPython 3.11 to 3.15 Lib/multiprocessing/forkserver.py, whose `main` imports them.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        is_main = frame.f_globals.get("__name__") == "multiprocessing.forkserver"
        if is_main and frame.f_code.co_name == "main":
            given = frame.f_locals
            own = ("__main__", "pasture.servers.forkserver", "pasture.servers.logged_forkserver")
            if given.get("on_error", "ignore") == "ignore":
                return tuple(name for name in given.get("preload") or () if name not in own)
    return ()


if not is_off():
    if "pasture.servers.observed_forkserver" in sys.modules:
        generators.settle()
        generators.forget()
    _settings = without_auto(settings_or_end())
    sealer = Sealer(dataclasses.replace(_settings, preload=(*_listed(), *_settings.preload)))
    fork_hook.before_each(lambda _: sealer.before_fork_or_end())
