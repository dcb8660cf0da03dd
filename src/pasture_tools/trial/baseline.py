"""A trial against the recorded document of an earlier one: which guarded figures grew.

Reading the file is the one effect. Figures come from `figures`; only like is compared with like. A
change counts when the median passes the limit and no round of one trial lies within the rounds of
the other. A smaller change may be the spread of the rounds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import UsageError
from pasture.log_lines import some
from pasture.sizing import read_trial
from pasture_tools.display.units import percent
from pasture_tools.trial.document import SCHEMA, load_of
from pasture_tools.trial.figures import BOOT, GUARDED, Figure
from pasture_tools.trial.plan import TrialPlan

Document = Mapping[str, Any]

_OF_LOAD = {
    "app": "APP", "server": "--server", "workers": "--workers", "requests": "--requests",
    "concurrency": "--concurrency", "headers": "--header",
    "warm": "--warm", "server_args": "the arguments after --",
}  # fmt: skip
"""Keys of a document's load that the figures depend on, as the user gave them."""

_OTHER_MEMORY = {"architecture": "the architecture", "os_page_bytes": "the size of an OS page"}
_OTHER_SPEED = ("processor", "processors")
_MIN_ROUNDS_OF_TIMES = 3
_MAX_NAMES = 3
_NEW_BASELINE = "if that is intended, record a new baseline with --json"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The document of an earlier trial, and how much of it a figure may grow by, as a fraction."""

    path: Path
    document: Document
    max_growth: float


@dataclass(frozen=True, slots=True)
class Change:
    """A guarded figure of a policy, in the baseline and in the new trial."""

    policy: str
    figure: Figure
    before: float
    now: float
    is_apart: bool  # no round of the one lies within the rounds of the other
    grew: bool  # beyond the limit and the spread of the rounds

    @property
    def growth(self) -> float:
        """The growth as a fraction of the baseline; negative where the figure shrank."""
        return self.now / self.before - 1 if self.before else 0.0

    def __str__(self) -> str:
        noise = "" if self.is_apart or not self.growth else ", within the spread of the rounds"
        return (
            f"{self.policy}: {self.figure.heading} {self.figure.words(self.now)}, was "
            f"{self.figure.words(self.before)} ({round(self.growth * 100):+d} %{noise})"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    baseline: Baseline
    changes: tuple[Change, ...]
    not_compared: tuple[str, ...]  # figures that are not compared, and why, a sentence each

    @property
    def grown(self) -> tuple[Change, ...]:
        """The changes that grew."""
        return tuple(change for change in self.changes if change.grew)

    def sentences(self) -> list[str]:
        """The comparison in words: each figure, then what is not compared."""
        limit = percent(self.baseline.max_growth)
        found = [f"Against {self.baseline.path}, where growth above {limit} fails:"]
        found += [f"{one}{', which is too much' if one.grew else ''}" for one in self.changes]
        return [*found, *(f"not compared: {words}" for words in self.not_compared)]

    def as_document(self) -> dict[str, Any]:
        """The comparison as plain values that JSON knows."""
        return {
            "file": str(self.baseline.path),
            "max_growth": self.baseline.max_growth,
            "changes": [
                {
                    "policy": change.policy,
                    "figure": change.figure.key,
                    "before": change.before,
                    "now": change.now,
                    "growth": change.growth,
                    "grew": change.grew,
                    "within_spread": not change.is_apart,
                }
                for change in self.changes
            ],
            "not_compared": list(self.not_compared),
        }


def read_baseline(path: Path, max_growth: str) -> Baseline:
    """The document of an earlier trial.

    Args:
        max_growth: as a user writes it: `10%`.

    Raises:
        UsageError: the file cannot be read, is not a document of a trial, or has another schema.
    """
    found = read_trial(path)
    if found.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {found.get('schema')}; this pasture reads {SCHEMA}",
            hint="compare it with the version of pasture that wrote it",
        )
    try:
        _look_through(found)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a complete trial: {error!r}", hint="pasture try --json FILE writes one"
        ) from None
    return Baseline(path, found, _fraction(max_growth))


def _fraction(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise UsageError(f"{text!r} is not a percentage", hint="as in 10%")
    return value


def _look_through(found: Document) -> None:
    """Read all that a comparison reads: a file may have been changed by hand."""
    _ = set(found["load"]["urls"]), found["load"]["rounds"] + 0, found["machine"].items()
    _ = [found["interpreter"][key].split() for key in ("implementation", "version")]
    for policy in found["policies"].values():
        for row in (policy, *policy["rounds"], policy["rounds"][0]):
            _ = [float(row[figure.key]) for figure in GUARDED]


def require_same_trial(
    document: Document, plan: TrialPlan, interpreter: Mapping[str, str], machine: Mapping[str, Any]
) -> None:
    """Refuse a baseline that cannot be compared with a trial, before the trial runs.

    Raises:
        UsageError: it has another load or interpreter, lacks every policy of the plan, or comes
        from a machine with other sizes.
    """
    before, now = document["load"], json.loads(json.dumps(load_of(plan)))
    was = document["interpreter"]
    pairs = [(option, before.get(key, now[key]), now[key]) for key, option in _OF_LOAD.items()]
    pairs += [("the interpreter", was["implementation"], interpreter["implementation"])]
    pairs += [("Python", _minor(was["version"]), _minor(interpreter["version"]))]
    measured = document["machine"]
    pairs += [(name, measured.get(key), machine[key]) for key, name in _OTHER_MEMORY.items()]
    other = [f"{name} was {old} and is {new}" for name, old, new in pairs if old != new]
    if not set(plan.policies) & set(document["policies"]):
        other.append(f"its policies are {', '.join(document['policies'])}")
    if other:
        raise UsageError(
            f"the baseline is from a different trial: {'; '.join(other)}", hint=_NEW_BASELINE
        )


def _minor(text: str) -> str:
    """`3.14.1` as `3.14`; other text as it is."""
    return ".".join(text.split(".")[:2])


def compare(baseline: Baseline, trial: Document) -> Comparison:
    """Compare the document of a trial with that of an earlier one.

    Raises:
        UsageError: the load sent other requests.
    """
    old, new = baseline.document, trial
    _require_same_urls(old["load"], new["load"])
    both = [policy for policy in new["policies"] if policy in old["policies"]]
    why_no_times = _why_no_times(old, new)
    changes = [
        _change(policy, figure, baseline, new)
        for policy in both
        for figure in GUARDED
        if not (figure is BOOT and why_no_times)
    ]
    not_compared = [f"{BOOT.heading}: {why_no_times}"] if why_no_times else []
    for policy in set(old["policies"]) ^ set(new["policies"]):
        whose = "this trial" if policy in old["policies"] else "the baseline"
        not_compared.append(f"{policy}: {whose} did not measure it")
    return Comparison(baseline, tuple(changes), tuple(sorted(not_compared)))


def _require_same_urls(before: Document, now: Document) -> None:
    changed = set(before["urls"]) ^ set(now["urls"])
    if changed:
        names = some(sorted(changed), _MAX_NAMES)
        raise UsageError(
            f"the baseline has a different load: {names} is in only one of them", hint=_NEW_BASELINE
        )


def _why_no_times(baseline: Document, trial: Document) -> str:
    """Why times are not compared; "" where they are."""
    was, is_now = baseline["machine"], trial["machine"]
    for key in _OTHER_SPEED:
        if was.get(key) != is_now[key]:
            return f"the {key} of the machine was {was.get(key)} and is {is_now[key]}"
    rounds = min(baseline["load"]["rounds"], trial["load"]["rounds"])
    if rounds < _MIN_ROUNDS_OF_TIMES:
        return f"times need {_MIN_ROUNDS_OF_TIMES} rounds or more: --rounds 3"
    return ""


def _change(policy: str, figure: Figure, baseline: Baseline, trial: Document) -> Change:
    old, new = (found["policies"][policy] for found in (baseline.document, trial))
    before, now = float(old[figure.key]), float(new[figure.key])
    of_rounds = [[float(row[figure.key]) for row in found["rounds"]] for found in (old, new)]
    is_apart = max(of_rounds[0]) < min(of_rounds[1]) or max(of_rounds[1]) < min(of_rounds[0])
    grew = is_apart and now > before * (1 + baseline.max_growth)
    return Change(policy, figure, before, now, is_apart, grew)
