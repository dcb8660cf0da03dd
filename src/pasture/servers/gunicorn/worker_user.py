"""The user and the groups of a worker, for code of the application that the parent runs. gunicorn's
parent stays root where `--user` or `--group` name another user for its workers, who import the
application as that user and own the files that it makes.

Changes only the effective ids; the parent is root again when the context ends.

Source: gunicorn 27, util.py (`set_owner_process`).
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def as_worker_user(cfg: Any) -> Iterator[None]:
    """Run the `with` block as workers of a configuration run. In the parent, between forks."""
    if os.geteuid() != 0 or not (cfg.uid or cfg.gid):
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    try:
        if cfg.gid and cfg.uid and cfg.initgroups:
            with suppress(KeyError):
                os.initgroups(pwd.getpwuid(cfg.uid).pw_name, cfg.gid)
        if cfg.gid:
            os.setegid(cfg.gid)
        if cfg.uid:
            os.seteuid(cfg.uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)
