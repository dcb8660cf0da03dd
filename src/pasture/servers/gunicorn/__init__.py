"""gunicorn, sealed. Importing this package is the switch.

In a `gunicorn.conf.py`:

    from pasture.servers.gunicorn import *

or, with arguments,

    from pasture.servers.gunicorn import configure
    configure(policy="seal", warm=["/", "/shop/?page=2"])

All hooks stay free for the user: not hooks but the arbiter is replaced, by a subclass that
seals between the user's `pre_fork` and the fork. docs/gunicorn.md is the user's guide.
"""

from pasture.errors import MissingExtra

try:
    import gunicorn.app.base
except ImportError as error:
    raise MissingExtra(
        f"gunicorn cannot be imported: {error}", hint="pip install 'pasture[gunicorn]'"
    ) from error

from pasture.servers.gunicorn.choice import make_arbiter
from pasture.servers.gunicorn.configuration import configure

gunicorn.app.base.Arbiter = make_arbiter

preload_app = True
"""A setting of gunicorn's. The arbiter switches it on in any case; here it is for
`gunicorn --print-config` to show, and for `import *` to bring."""

__all__ = ["configure", "preload_app"]
