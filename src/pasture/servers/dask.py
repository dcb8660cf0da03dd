"""Workers of Dask's nannies, forked from one sealed process a node.

    dask worker tcp://... --nworkers 4 --preload-nanny pasture.servers.dask

or, in Dask's configuration, `distributed.nanny.preload: [pasture.servers.dask]`. A nanny then
starts its workers through the forkserver of `multiprocessing`, which is sealed before its first
fork. Importing this has no effect; Dask calls `dask_setup` in each nanny. docs/clusters.md is the
user's guide. Written for distributed 2026.8; leans on `distributed.utils.get_mp_context`.
"""

from __future__ import annotations

import logging
import os
from multiprocessing import forkserver
from typing import Any

import dask
from distributed.utils import get_mp_context

from pasture.serving.sealer import is_off
from pasture.serving.settings import SETTINGS

PRELOAD = SETTINGS["preload"].variable
METHOD = "distributed.worker.multiprocessing-method"
PRELOADED = "pasture.preload"
"""Key in Dask's configuration: modules that all workers then share."""

OBSERVING = "pasture.servers.observed_forkserver"
SEALING = "pasture.servers.logged_forkserver"

log = logging.getLogger("distributed.nanny")


def dask_setup(nanny: Any) -> None:
    """Fork this process's workers from a sealed forkserver. Called once for each nanny."""
    if is_off():
        return
    method = dask.config.get(METHOD)
    if method == "fork":
        log.warning(
            "pasture: not sealed: %s is fork, so the nanny itself forks; leave it out, or "
            "say forkserver",
            METHOD,
        )
        return
    if method != "forkserver":  # "spawn" is Dask's default, even if the user has set it
        dask.config.set({METHOD: "forkserver"})
    modules = preload_list(os.environ.get(PRELOAD, ""), dask.config.get(PRELOADED, []))
    if modules:
        os.environ[PRELOAD] = modules
    context: Any = get_mp_context()  # and Dask's own list is set
    theirs = list(vars(forkserver)["_forkserver"]._preload_modules)
    if SEALING not in theirs:
        observing = [OBSERVING] if method != "forkserver" else []  # a forkserver's list is shared
        context.set_forkserver_preload([*observing, *theirs, SEALING])


def preload_list(variable: str, configured: object) -> str:
    """PASTURE_PRELOAD for the forkserver: the variable, or Dask's list of names or string with
    commas.
    """
    if variable:
        return variable
    names = configured.split(",") if isinstance(configured, str) else configured
    return ",".join(str(name).strip() for name in names or ())  # type: ignore[attr-defined]
