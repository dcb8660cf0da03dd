"""gunicorn, sealed. Importing this package is the switch.

In a `gunicorn.conf.py` `from pasture.servers.gunicorn import *` or, with arguments,

    from pasture.servers.gunicorn import configure
    configure(policy="seal", warm=["/", "/shop/?page=2"])

All hooks stay free for the user: a subclass replaces the arbiter, and seals between the user's
`pre_fork` and the fork. docs/gunicorn.md is the user's guide.
"""

from __future__ import annotations

from typing import Any

from pasture import off
from pasture.errors import PastureError
from pasture.log_lines import PREFIX, Log
from pasture.sealing.policy import find_policy
from pasture.servers.engine import Engine, installed
from pasture.servers.engines import ENGINES
from pasture.serving import restart
from pasture.serving.moved_import import announce_plain
from pasture.serving.sealer import is_off
from pasture.serving.settings import SETTINGS, read_environment
from pasture.trust.private_files import require_temporary_file

with installed("gunicorn"):
    import gunicorn.app.base
    from gunicorn.arbiter import Arbiter

    if not off.why():  # else this gunicorn may be an unknown version
        from pasture.servers.gunicorn.arbiter import SealingArbiter

_ANOTHER_FOLDER = "give gunicorn --worker-tmp-dir, /dev/shm say, or set TMPDIR"
_CONFIGURABLE = {name for name, row in SETTINGS.items() if row.is_known_to(ENGINES["gunicorn"])}


class Gunicorn(Engine):
    """gunicorn's arbiter, made once the configuration file has been read, which may give settings.

    `configured` has them, as arguments of `read_environment`.
    """

    name = "gunicorn"
    shows_log = False

    def __init__(self) -> None:
        super().__init__()
        self.configured: dict[str, Any] = {}

    def switch(self) -> None:
        gunicorn.app.base.Arbiter = self.make_arbiter

    def make_arbiter(self, app: Any) -> Arbiter:
        """Replaces gunicorn's `Arbiter`.

        Ends the process if the settings are wrong, or if the application must not be forked.
        """
        try:
            arbiter = self._make_arbiter(app)
        except PastureError as error:
            self.end(error)
        if restart.is_run_by_pasture():  # USR2 comes back here
            arbiter.START_CTX.update({0: restart.arguments[0], "args": [*restart.arguments]})
        return arbiter

    def _make_arbiter(self, app: Any) -> Arbiter:
        if off.why():
            arbiter = Arbiter(app)
            is_off(_log_of(arbiter))
            return arbiter
        self.settings = read_environment(**self.configured)
        # Each worker has such a file; gunicorn would end with a traceback.
        require_temporary_file(app.cfg.worker_tmp_dir, hint=_ANOTHER_FOLDER)
        # gunicorn has read it before the configuration file could, for an upgrade (USR2).
        app.cfg.env_orig.pop(restart.VARIABLE, None)
        if restart.why_plain is not None:
            arbiter = Arbiter(app)
            announce_plain(restart.why_plain, self.settings, _log_of(arbiter))
            return arbiter
        if self.settings.refork is None:
            return SealingArbiter(app, self.settings)
        # Imported only here: it is sealed in.
        from pasture.servers.gunicorn.refork.reforking_arbiter import ReforkingArbiter

        return ReforkingArbiter(app, self.settings)


def _log_of(arbiter: Arbiter) -> Log:
    return lambda level, line: arbiter.log.log(level, "%s", PREFIX + line)


engine = Gunicorn.switch_on()


def configure(**settings: Any) -> None:
    """Choose settings in a `gunicorn.conf.py`, by the names of the options of `pasture run`.

    The options, and the variables that they set, win over these arguments. Often used:

        policy: its name, or your own `Policy`; "seal" is the default.
        warm: lines `PATH`, `METHOD PATH` or `Name: value` (a header for all of them).
        max_uss: a worker whose private memory passes this is replaced, as in `200M`.
        refork: requests by generation after which a worker becomes the next parent, as in
            `50,500,2000`; see docs/refork.md.
        warm_total_timeout: seconds for all requests of the warm-up; 0 removes the limit.

    Raises:
        TypeError: the setting does not exist, or not for gunicorn.
        UnknownPolicy: the policy does not exist.
    """
    if off.why():
        return
    for name in settings:
        if name not in _CONFIGURABLE:
            raise TypeError(f"configure() got an unexpected keyword argument {name!r}")
    engine.configured.clear()
    engine.configured.update((name, raw) for name, raw in settings.items() if raw not in ("", None))
    if settings.get("policy") is not None:  # an error here is one of the configuration file
        engine.configured["policy"] = find_policy(settings["policy"])


__all__ = ["configure"]
