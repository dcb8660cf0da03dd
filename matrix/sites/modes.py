"""The ways in which a site is run: the plain command, and pasture's ways around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pasture.servers.engines import ENGINES


@dataclass(frozen=True, slots=True)
class Mode:
    """One way.

    Attributes:
        run: by `pasture run`.
        variables: added to the environment.
        warm: with the site's requests before the fork.
        reforks: the server has the site's generations.
    """

    name: str
    run: bool = False
    variables: Mapping[str, str] | None = None
    warm: bool = False
    reforks: bool = False

    def command(self, plain: Sequence[str]) -> list[str]:
        """The command of this mode, for a plain one.

        A program that `pasture run` does not know runs as one in Python.
        """
        if not self.run:
            return list(plain)
        row = ENGINES.get(plain[0])
        if row is None or not row.is_program:
            return ["pasture", "run", "python", f"{{bin}}/{plain[0]}", *plain[1:]]
        return ["pasture", "run", *plain]

    def environment(self, warm: Sequence[str], refork: str = "") -> dict[str, str]:
        """What this mode adds to the environment of a server with these generations, or of none."""
        added = dict(self.variables or {})
        if self.warm:
            added["PASTURE_WARM"] = "\n".join(warm)
        if self.reforks and refork:
            added["PASTURE_REFORK"] = refork
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
        Mode("refork", variables=SEAL, reforks=True),
    )
}
