"""What a server's probe came to: whether its workers answer as its parent did before the fork."""

from __future__ import annotations

from collections.abc import Iterator

from pasture.doctor.evidence import Evidence
from pasture.doctor.finding import Finding
from pasture.servers import restart
from pasture.trust.untrusted_text import printable

_FIX = (
    "fix the page, or what the application holds across the fork, and start the server anew; "
    "docs/probe.md lists the causes"
)


def probe(seen: Evidence) -> Iterator[Finding]:
    """The outcome of the latest start's probe; of an earlier start's that this one follows."""
    earlier = restart.parse(seen.environ.get(restart.VARIABLE))
    if earlier is not None:
        what = "the warm-up" if earlier.what == "warm-up" else "pasture"
        yield Finding(
            "probe",
            True,
            f"it started without {what}: in its probe {printable(earlier.why)}",
            cost="what the warm-up loads is each worker's own"
            if earlier.what == "warm-up"
            else "nothing is shared but what the server itself preloads",
            fix=_FIX,
        )
        return
    outcome = "" if seen.seal is None else seen.seal.probe
    if outcome == "failed":
        what = "its probe failed, and it started as it is: the log names the requests"
        yield Finding("probe", True, what, cost="workers fail or hang", fix=_FIX)
    elif outcome == "doubtful":
        what = "its probe passed, but for bodies of another structure: the log names the requests"
        yield Finding("probe", False, what)
    elif outcome == "incomplete":
        yield Finding("probe", False, "its probe passed as far as its time went")
    elif outcome == "passed":
        yield Finding("probe", False, "its probe passed: workers answer as the warm-up did")
