"""gunicorn, sealed. Importing this package is the switch.

In a `gunicorn.conf.py`:

    from pasture.servers.gunicorn import *

or, with arguments,

    from pasture.servers.gunicorn import configure
    configure(policy="seal", warm=["/", "/shop/?page=2"])

All hooks stay free for the user: not hooks but the arbiter is replaced, by a subclass that
seals between the user's `pre_fork` and the fork. docs/gunicorn.md is the user's guide.
"""

from __future__ import annotations

import sys
from typing import Any

from pasture.errors import MissingExtra, PastureError

try:
    import gunicorn.app.base
except ImportError as error:
    raise MissingExtra(
        f"gunicorn cannot be imported: {error}", hint="pip install 'pasture[gunicorn]'"
    ) from error

from gunicorn.arbiter import Arbiter

from pasture.log_lines import NO_SEAL, PREFIX
from pasture.sealing.policy import find_policy
from pasture.servers import restart
from pasture.servers.engines import ENGINES
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.settings import SETTINGS, settings_or_end
from pasture.trust.private_files import require_temporary_file
from pasture.trust.untrusted_text import complain

_ANOTHER_FOLDER = "give gunicorn --worker-tmp-dir, /dev/shm say, or set TMPDIR"
_CONFIGURABLE = {
    name
    for name, row in SETTINGS.items()
    if row.is_known_to(ENGINES["gunicorn"])
    if name != "lazy_imports"  # the seal reads the variable
}
_configured: dict[str, Any] = {}
"""What the configuration file asked for, as arguments of `read_environment`."""


def configure(**settings: Any) -> None:
    """Choose settings from a `gunicorn.conf.py`, by the names of the options of `pasture run`.

    The options, and the variables that they set, win over what is given here. Often used:

        policy: its name, or one of your own; "seal" is the default.
        warm: lines `PATH`, `METHOD PATH` or `Name: value` (a header for all of them).
        max_uss: a worker whose private memory passes this is replaced, as in `200M`.
        refork: requests by generation after which a worker becomes the next parent, as in
            `50,500,2000`; see docs/refork.md.
        warm_timeout, warm_total_timeout: seconds for each request of the warm-up and for all of
            it; 0 is no limit.

    Raises:
        TypeError: there is no such setting, or gunicorn does not know it.
        UnknownPolicy: no policy has that name.
    """
    for name in settings:
        if name not in _CONFIGURABLE:
            raise TypeError(f"configure() got an unexpected keyword argument {name!r}")
    _configured.clear()
    _configured.update((name, raw) for name, raw in settings.items() if raw not in ("", None))
    if settings.get("policy") is not None:  # a mistake here is one of the configuration file
        _configured["policy"] = find_policy(settings["policy"])


def _make_arbiter(app: Any) -> Arbiter:
    """In place of gunicorn's `Arbiter`, once the configuration has been read.

    Ends the process where the settings make no sense.
    """
    settings = settings_or_end(**_configured)
    try:
        # One for each worker; gunicorn would end with a traceback.
        require_temporary_file(app.cfg.worker_tmp_dir, hint=_ANOTHER_FOLDER)
    except PastureError as error:
        sys.exit(complain(error))
    # gunicorn has read it before the configuration file could, and gives it to an upgrade (USR2).
    app.cfg.env_orig.pop(restart.VARIABLE, None)
    if restart.is_without_pasture():
        return _make_plain_arbiter(app)
    if settings.refork is None:
        return SealingArbiter(app, settings)
    # Only here: what is imported is sealed in.
    from pasture.servers.gunicorn.refork.reforking_arbiter import ReforkingArbiter

    return ReforkingArbiter(app, settings)


class _PlainArbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's own, whose workers load the application, whatever the import line has set."""

    def setup(self, app: Any) -> None:
        app.cfg.set("preload_app", False)
        super().setup(app)


def _make_plain_arbiter(app: Any) -> Arbiter:
    arbiter = _PlainArbiter(app)
    arbiter.log.error(PREFIX + NO_SEAL, restart.earlier)
    return arbiter


gunicorn.app.base.Arbiter = _make_arbiter

preload_app = True
"""A setting of gunicorn's. The arbiter switches it on in any case; here it is for
`gunicorn --print-config` to show, and for `import *` to bring."""

__all__ = ["configure", "preload_app"]
