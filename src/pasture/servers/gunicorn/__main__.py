"""`python -m pasture.servers.gunicorn ARGS`: what `pasture run gunicorn ARGS` becomes.

Unlike under the script `gunicorn`, an application that cannot be imported is an error of ours, and
a re-exec (USR2) comes back here.
"""

from __future__ import annotations

import sys
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication
from gunicorn.errors import AppImportError

from pasture.errors import AppImportFailed
from pasture.servers.gunicorn import engine
from pasture.servers.preload import import_failed
from pasture.servers.starter import starter


class SealedApplication(WSGIApplication):  # type: ignore[misc]
    """`gunicorn APP` under a sealing arbiter."""

    def load_config(self) -> None:
        """As gunicorn's, and the arbiter learns how to start this program again."""
        super().load_config()
        users = self.cfg.on_starting

        def on_starting(server: Any) -> None:
            server.START_CTX[0] = starter()
            server.START_CTX["args"] = [starter(), *sys.orig_argv[1:]]
            users(server)

        self.cfg.set("on_starting", on_starting)

    def load(self) -> Any:
        """Import the application; raises AppImportFailed in the master.

        For a worker, which loads it only under --reload, gunicorn wants the original exception.
        """
        try:
            return super().load()
        except Exception as error:
            if not self.cfg.preload_app:
                raise
            raise _import_failed(self.app_uri, error) from error


def _import_failed(app: str, error: Exception) -> AppImportFailed:
    if isinstance(error, AppImportError):
        return AppImportFailed(f"{app} cannot be imported: {error}", hint="check the name")
    return import_failed(app, error, server="gunicorn", hint="check the name and --chdir")


def run() -> None:
    """Serve until asked to stop."""
    SealedApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn").run()


if __name__ == "__main__":
    sys.exit(engine.run(command=run))
