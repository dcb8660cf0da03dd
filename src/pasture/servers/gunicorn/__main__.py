"""`python -m pasture.servers.gunicorn ARGS`: what `pasture run gunicorn ARGS` becomes.

Unlike under the script `gunicorn`, an application that cannot be imported is an error of ours.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication
from gunicorn.errors import AppImportError

from pasture.errors import AppImportFailed
from pasture.servers.gunicorn import engine
from pasture.serving import restart
from pasture.serving.preload import import_failed


class SealedApplication(WSGIApplication):  # type: ignore[misc]
    """`gunicorn APP` under a sealing arbiter."""

    def load(self) -> Any:
        """Import the application; raises AppImportFailed in the master.

        For a worker, which loads it under --reload and without pasture, gunicorn wants the original
        exception.
        """
        try:
            return super().load()
        except Exception as error:
            if self.cfg.reload or restart.is_without_pasture():
                raise
            raise _import_failed(self.app_uri, error) from error


def _import_failed(app: str, error: Exception) -> AppImportFailed:
    if isinstance(error, AppImportError):
        from pasture.serving.app_name import did_you_mean  # now: it would be sealed in

        hint = did_you_mean(app, Path.cwd()) or "check the name"
        return AppImportFailed(f"{app} cannot be imported: {error}", hint=hint, is_certain=True)
    return import_failed(app, error, server="gunicorn", hint="check the name and --chdir")


def run() -> None:
    """Serve until asked to stop."""
    SealedApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn").run()


if __name__ == "__main__":
    sys.exit(engine.run(command=run))
