"""The ways in which a site is run: the plain command, and pasture's ways around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mode:
    """One way.

    Attributes:
        run: by `pasture run`.
        variables: added to the environment.
        warm: with the site's requests before the fork.
    """

    name: str
    run: bool = False
    variables: Mapping[str, str] | None = None
    warm: bool = False

    def command(self, plain: Sequence[str]) -> list[str]:
        """The command of this mode, for a plain one."""
        return ["pasture", "run", *plain] if self.run else list(plain)

    def environment(self, warm: Sequence[str]) -> dict[str, str]:
        """What this mode adds to the environment."""
        added = dict(self.variables or {})
        if self.warm:
            added["PASTURE_WARM"] = "\n".join(warm)
        return added


PLAIN = Mode("plain")
PLAIN_RUNS = ("plain", "plain-again")
SEALED_AND_WARM = "run-warm"
SEAL = {"PASTURE": "seal"}
MODES: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("run", run=True),
        Mode(SEALED_AND_WARM, run=True, warm=True),
        Mode("seal", variables=SEAL),
        Mode("seal-warm", variables=SEAL, warm=True),
    )
}
