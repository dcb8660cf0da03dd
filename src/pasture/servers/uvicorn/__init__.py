"""uvicorn's workers, forked from a sealed parent. Importing this package is the switch.

In the program that calls `uvicorn.run(..., workers=8)` `import pasture.servers.uvicorn`, or
`pasture run uvicorn app:app --workers 8`, `pasture run fastapi run app.py --workers 8`. The
application is loaded once, in the parent. docs/uvicorn.md is the user's guide.

Written for uvicorn 0.30 to 0.54; leans on the names `Config` and `Multiprocess` in `uvicorn.main`.
"""

from __future__ import annotations

import importlib
from typing import Any

from pasture.errors import UsageError
from pasture.servers.engine import Engine, installed

with installed("uvicorn"):
    from uvicorn.config import Config

    from pasture.servers.uvicorn.supervisor import SealingSupervisor


class Uvicorn(Engine):
    """`uvicorn.run`, by the configuration."""

    name = "uvicorn"

    def install(self) -> None:
        engine = self

        def checked_config(*arguments: Any, **named: Any) -> Config:
            """A configuration of uvicorn's own class: uvicorn pickles it for --reload."""
            config = Config(*arguments, **named)
            engine.is_refused(config)
            return config

        class SealedMultiprocess(SealingSupervisor):
            """uvicorn's supervisor with the settings of this process."""

            def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
                super().__init__(engine.settings, config, *arguments, **named)

        run: Any = importlib.import_module("uvicorn.main")  # its name in the package is a command
        run.Config, run.Multiprocess = checked_config, SealedMultiprocess

    def check(self, started: Config) -> None:
        if started.reload:
            raise UsageError(
                "with --reload uvicorn has one process, which it restarts at each change of a "
                "file: there is nothing to share",
                hint="leave --reload out (`fastapi dev` has it), or leave pasture out",
            )
        if started.workers <= 1:
            raise UsageError(
                "uvicorn without --workers serves in one process: there is nothing to share",
                hint="give --workers 2 or more, or set WEB_CONCURRENCY; or leave pasture out",
            )

    def command(self) -> Any:
        from uvicorn.main import main

        return main(prog_name=self.name)


engine = Uvicorn.switch_on()
