"""The folder of what outlives a trial: environments of tools, and runs for `pasture try --resume`.

Owns the place and its safety. Everything in it may be deleted at any time, and is made again. Runs
are in one file for each application and folder, readable by this user alone: what they measured
and which options they were made with; values that may be secret (headers, variables) only as
digests. A trial that ended with all its runs leaves none.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pasture.display.records import decoded
from pasture.errors import UsageError
from pasture.trial.measurement import Run
from pasture.trial.plan import TrialPlan
from pasture.trust import private_files
from pasture.trust.foreign_files import read_foreign
from pasture.trust.untrusted_text import to_json

HINT = "set XDG_CACHE_HOME to a folder of your own with room in it"

_SCHEMA = 1
_MAX_BYTES = 1 << 30
_FREE_TO_CHANGE = frozenset(
    ("log_dir", "port", "load_python", "server_timeout_s", "run_timeout_s", "limit_bytes")
)
"""Parts of a plan that say nothing about what is measured, or that a run failed for."""

_SECRET = frozenset(("headers", "env"))
_OPTIONS = {
    "policies": "--policy", "urls": "--url", "headers": "--header", "concurrency": "-c",
    "server_args": "the arguments after --", "server_python": "the interpreter",
}  # fmt: skip
"""The user's name of a part of a plan, where that is not `--` and its name."""


def cache_folder() -> Path:
    """The folder, made if it is not there.

    Raises:
        UsageError: it cannot be made, or another user has a say in it.
    """
    base = _base()
    try:
        # Each of them: who may write to one can put a folder of his own in the next one's place.
        for folder in (base, base / "pasture", base / "pasture" / "trial"):
            private_files.make_folder(folder)
    except OSError as error:
        raise refused(base / "pasture" / "trial", error) from None
    return base / "pasture" / "trial"


def refused(path: Path, error: OSError) -> UsageError:
    """The error for what cannot be kept."""
    return UsageError(f"cannot keep anything in {path}: {error.strerror or error}", hint=HINT)


def _base() -> Path:
    """By the XDG Base Directory Specification, which has a relative path ignored."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise UsageError("this user has no home folder", hint=HINT) from None


@dataclass(frozen=True, slots=True)
class Kept:
    """Runs of an earlier trial."""

    runs: tuple[Run, ...]
    made: datetime  # when its latest run ended


class RunKeeper:
    """Keeps the runs of one trial. UsageError if there is no place for them."""

    def __init__(self, plan: TrialPlan) -> None:
        self._plan = plan
        self._salt = secrets.token_hex(8)
        where = (plan.app, str((plan.chdir or Path()).resolve()))
        name = hashlib.blake2b("\0".join(where).encode(errors="replace"), digest_size=8)
        self.path = cache_folder() / f"runs-{name.hexdigest()}.json"

    def save(self, runs: Sequence[Run]) -> None:
        """Keep these runs in place of earlier ones. OSError leaves the earlier file as it was."""
        document = {
            "schema": _SCHEMA,
            "made": datetime.now().isoformat(timespec="seconds"),
            "salt": self._salt,
            "settings": _settings(self._plan, self._salt),
            "runs": [asdict(run) for run in runs],
        }
        private_files.write(self.path, to_json(document))

    def load(self) -> Kept:
        """The runs that an earlier trial with the same options left.

        Raises:
            UsageError: there are none, they cannot be read, or the options were others.
        """
        if not self.path.exists():
            raise UsageError(
                f"no unfinished trial of {self._plan.app} from this folder is kept",
                hint="leave --resume out",
            )
        document = self._read()
        self._salt = document["salt"]
        changed = _differences(document["settings"], _settings(self._plan, self._salt))
        if changed:
            raise UsageError(
                f"the unfinished trial had other options: {'; '.join(changed)}",
                hint="give the same options, or leave --resume out to begin anew",
            )
        return Kept(decoded(tuple[Run, ...], document["runs"]), _moment(document["made"]))

    def forget(self) -> None:
        """Remove what is kept, if anything is."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(read_foreign(self.path, most_bytes=_MAX_BYTES))
            if document["schema"] != _SCHEMA or not isinstance(document["settings"], dict):
                raise ValueError("it has another form")
            decoded(tuple[Run, ...], document["runs"])
            _moment(document["made"])
            str.encode(document["salt"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f"{self.path} cannot be read: {error}", hint="leave --resume out to begin anew"
            ) from None
        return dict(document)


def _settings(plan: TrialPlan, salt: str) -> dict[str, str]:
    """Options that must be the same for runs to be compared, by the field of the plan."""
    found = {"pasture": version("pasture")}
    for part in fields(plan):
        if part.name in _FREE_TO_CHANGE:
            continue
        value = getattr(plan, part.name)
        if part.name == "locustfile" and value is not None:
            value = f"{value.resolve()} {_digest(value.read_bytes(), salt)}"
        elif part.name in _SECRET:
            pairs = value.items() if isinstance(value, Mapping) else value
            value = [[name, _digest(text.encode(), salt)] for name, text in pairs]
        elif part.name in ("urls", "warm") and value is not None:
            value = [str(request) for request in value]
        elif part.name == "chdir":
            value = (value or Path()).resolve()
        found[part.name] = json.dumps(value, default=str)
    return found


def _digest(content: bytes, salt: str) -> str:
    return hashlib.blake2b(content, key=salt.encode(), digest_size=16).hexdigest()


def _differences(before: Mapping[str, Any], now: Mapping[str, str]) -> list[str]:
    """A sentence for each setting that is not what it was."""
    found = []
    for name, value in now.items():
        was = str(before.get(name, "unknown"))
        if was == value:
            continue
        called = _OPTIONS.get(name, "--" + name.replace("_", "-")) if name != "pasture" else name
        plain = name not in (*_SECRET, "locustfile")
        found.append(f"{called} was {was} and is {value}" if plain else f"{called} has changed")
    return found


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
