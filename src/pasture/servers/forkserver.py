"""Preload module that seals the forkserver of `multiprocessing` before it forks.

    multiprocessing.set_forkserver_preload(["my_module", "pasture.servers.forkserver"])

Importing it is the switch; its place in the list does not matter, because the seal waits
for the first fork. Children of a forkserver end by `os._exit`. Never imported by pasture
itself: it is for the process that forks.
"""

import os
import sys

from pasture.fork_safety import generators
from pasture.servers.sealer import Sealer, or_end
from pasture.servers.settings import settings_or_end

sealer = Sealer(settings_or_end())

if "pasture.servers.observed_forkserver" in sys.modules:
    generators.settle()
    generators.forget()

os.register_at_fork(before=lambda: or_end(sealer.before_fork))
