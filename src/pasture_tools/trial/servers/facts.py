"""Facts of a server that a trial needs, as data: its command line, its workers, its phrases.

Invariant: a server that is started from these facts binds the address of the trial and no other,
and touches no file of a server in production.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pasture.errors import UsageError
from pasture.proc import tree
from pasture.sealing.policy import POLICIES, Policy
from pasture.servers.engines import ENGINES

PLAIN = "plain"
"""The server's own command with the user's arguments, as users have it today."""

STOCK = "stock"
"""The policy under which a server runs as its makers ship it, with the application preloaded."""

TRIED: Mapping[str, Policy] = MappingProxyType(
    {PLAIN: Policy(PLAIN, "what you have today: the server's own command"), **POLICIES}
)
"""All that a trial can run, by name."""

NEVER = re.compile(r"(?!)")
"""Matches nothing."""

ONLY_GUNICORN: Mapping[str, str] = {
    "refork": "not tried: only gunicorn can refork",
    PLAIN: "not tried: stock is the server's own command here",
}
"""Why policies do not exist on other servers."""


@dataclass(frozen=True, slots=True)
class Start:
    app: str  # the application, as the user names it
    policy: str
    workers: int
    host: str
    port: int
    arguments: tuple[str, ...]  # the user's, for the server
    folder: Path  # for files of this start alone

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"{self.host}:{self.port}"

    def by_pasture(self, name: str) -> list[str]:
        """The beginning of a command line under which pasture runs a server with the policy."""
        return [sys.executable, "-m", "pasture", "run", "--policy", self.policy, name]

    def plain_or_by_pasture(self, name: str, *plain: str, under: str = STOCK) -> list[str]:
        """As `by_pasture`, or for the policy `plain` its interpreter with these arguments."""
        return [sys.executable, *plain] if self.policy == under else self.by_pasture(name)


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrases of a server's log that a trial understands."""

    # Logged by each worker that has loaded the application; "" if the number of workers is enough.
    started: str = ""
    # A line for each worker that ended by itself, of a server that goes on.
    worker_died: re.Pattern[str] = NEVER
    worker_died_hint: str = ""  # a likely reason where no worker logs one
    # The application is missing; group 1 is the reason.
    not_found: re.Pattern[str] = re.compile(r"^(No module named .*)$", re.MULTILINE)
    start_failed: str = ""  # the application was imported and did not start
    # The line for an application that this server cannot call.
    called_wrongly: re.Pattern[str] = NEVER
    wrong_kind: str = ""  # the reason, after "because"
    wrong_kind_hint: str = ""  # what to do then


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server that a trial can boot."""

    name: str  # the name of its row in `pasture.servers.engines`
    install: str  # what pip installs for it
    # The command line of one start. Whatever the arguments may share with a server in production
    # comes behind them, or is refused.
    command: Callable[[Start], list[str]]
    served_by: tuple[str, ...]  # arguments after its name, with `{app}` and `{workers}`
    # The policy `stock` here, in a sentence; "" where it is the application preloaded and
    # nothing else.
    stock: str = ""
    stock_spawns: bool = False  # under `stock` its workers are interpreters of their own
    # Why a policy does not exist here, by the policy's name.
    cannot: Mapping[str, str] = field(default_factory=dict)
    least_workers: int = 1  # with fewer it does not fork
    # Where the application raises, the connection is closed without an answer.
    silent_errors: bool = False
    # Why an option is not for a trial, by its name without dashes.
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_word: re.Pattern[str] = NEVER  # an argument that reads more options from a file
    variables: str = ""  # prefix of variables that it reads its options from
    phrases: Phrases = Phrases()

    @property
    def module(self) -> str:
        """The module that is imported for it."""
        return ENGINES[self.name].package

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies to try by default."""
        return tuple(name for name in (PLAIN, STOCK, "freeze", "seal") if name not in self.cannot)

    def workers_of(self, policy: str) -> Callable[[int], tuple[int, ...]]:
        """A function from the pid of its parent to the pids of its workers, ascending."""
        spawned = self.stock_spawns and policy == STOCK
        return tree.spawned_workers if spawned else tree.forked_workers

    def reads(self, variable: str) -> bool:
        """Whether it takes an option that is not for a trial from a variable of that name."""
        name = variable.removeprefix(self.variables)
        read = bool(self.variables) and name != variable
        return read and name.lower().replace("_", "-") in self.refused

    def check(self, arguments: Sequence[str], env: Mapping[str, str], workers: int) -> None:
        """Refuse options that are not for a trial, before anything is started.

        Raises:
            UsageError: too few workers, or something that may reach a server in production.
        """
        for word in arguments:
            why = self.refused.get(_option(word))
            if why or self.refused_word.search(word):
                raise UsageError(
                    f"{word} is not for a trial: {why or 'it names a file with more options'}",
                    hint=f"pass the options that matter to {self.name} one by one, after --",
                )
        for name in filter(self.reads, env):
            raise UsageError(
                f"the variable {name} is not for a trial of {self.name}", hint="leave it out"
            )
        if workers < self.least_workers:
            raise UsageError(
                f"{self.name} with {workers} worker serves in one process: there is nothing to "
                "share",
                hint=f"give --workers {self.least_workers} or more",
            )


def called_without(argument: str) -> re.Pattern[str]:
    """Python's message of an application that was called without an argument of that name."""
    missing = rf"^TypeError: .*missing 1 required positional argument: '{argument}'$"
    return re.compile(missing, re.MULTILINE)


def _option(word: str) -> str:
    """The name of the option that a word gives, without dashes and value; "" if it gives none."""
    if word.startswith("--"):
        return word[2:].partition("=")[0]
    return word[1:2] if word.startswith("-") else ""
