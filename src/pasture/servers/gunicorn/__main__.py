"""`python -m pasture.servers.gunicorn ARGS`: what `pasture run gunicorn ARGS` becomes.

Unlike the script `gunicorn`, it reports an application that cannot be imported as pasture's error.
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
            if self.cfg.reload or restart.why_plain is not None:
                raise
            app = self.app_uri
            if not isinstance(error, AppImportError):
                hint = "check the name and --chdir"
                raise import_failed(app, error, server="gunicorn", hint=hint) from error
            from pasture.serving.app_name import (
                did_you_mean,  # imported now: else it would be sealed in
            )

            hint = did_you_mean(app, Path.cwd()) or "check the name"
            what = f"{app} cannot be imported: {error}"
            raise AppImportFailed(what, hint=hint, is_certain=True) from error


if __name__ == "__main__":
    usage = "%(prog)s [OPTIONS] [APP_MODULE]"
    sys.exit(engine.run(command=lambda: SealedApplication(usage, prog="gunicorn").run()))
