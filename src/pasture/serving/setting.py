"""A setting of a server process: how users give it and how it is read. `settings` has the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pasture import off
from pasture.errors import UsageError

if TYPE_CHECKING:
    from typing import Protocol

    class EngineRow(Protocol):
        """The fields of an engine's row in `pasture.servers.engines` that settings read."""

        name: str
        replaces_workers: bool
        reforks: bool


Raw = Any
"""A value as users give it: text, or an argument of an option or of `configure`."""

ON = ("1", "on", "true", "yes")
OFF = off.WORDS
"""Words that turn a switch off, in any case; the start file of pasture[auto] has them, too."""


def read_switch(raw: Raw, name: str) -> bool:
    """Whether a switch is on. Raises a UsageError with the setting's name for other text."""
    word = raw.strip().lower() if isinstance(raw, str) else raw
    if word not in (True, False, *ON, *OFF):
        raise UsageError(f"{name} is {raw!r}", hint=f"{', '.join(ON)}; or {', '.join(OFF)}")
    return word in (True, *ON)


def at_need(place: str) -> Callable[..., Any]:
    """A `module:function` that is imported when it is called: most settings are not given."""

    def call(*arguments: Any) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)(*arguments)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    variable: str  # environment variable
    option: str = ""  # option of `pasture run`; "" for none
    help: str
    metavar: str = ""  # placeholder of the option's value in the help
    # Type of the option: `str`, `float`, `Path`, some words, or `bool` for a switch.
    takes: type | tuple[str, ...] = str
    repeats: bool = False  # the option may be given several times
    default: Any = None  # the default value
    # Makes the value from the raw ones of the setting and of its parts; None keeps the raw one.
    parse: Callable[..., Any] | None = None
    # Raises if a single value of the option is wrong, where `parse` takes all of them.
    check: Callable[[str], object] | None = None
    parts: tuple[Setting, ...] = ()  # settings that are part of this one
    engines: Callable[[EngineRow], bool] | None = None  # whether an engine knows it; None if all do
    # Message and hint for engines that do not know it; `{}` is the engine's name.
    refusal: tuple[str, str] = ("", "")

    # Name in code and in `configure()`, as `max_uss` for `--max-uss` and `PASTURE_MAX_USS`.
    name: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        name = self.option.removeprefix("--").replace("-", "_")
        object.__setattr__(self, "name", name or self.variable.removeprefix("PASTURE_").lower())

    def is_known_to(self, engine: EngineRow) -> bool:
        return self.engines is None or self.engines(engine)

    def require(self, engine: EngineRow) -> None:
        """Raise a UsageError with the words of the row if an engine does not know it."""
        if not self.is_known_to(engine):
            message, hint = self.refusal
            raise UsageError(message.format(engine.name), hint=hint)

    def read(self, environ: Mapping[str, str], given: Mapping[str, Raw]) -> Any:
        """The value; a variable wins if it is not empty. Raises a PastureError for a wrong one."""
        raws = [environ.get(each.variable) or given.get(each.name) for each in (self, *self.parts)]
        if all(raw is None for raw in raws):
            return self.default
        return self._value(raws[0]) if self.parse is None else self.parse(*raws)

    def _value(self, raw: Raw) -> Any:
        if isinstance(self.takes, tuple):
            if raw not in self.takes:
                known = ", ".join(self.takes)
                raise UsageError(f"{self.variable} is {raw!r}", hint=f"known are {known}")
            return raw
        if self.takes is bool:
            return read_switch(raw, self.variable)
        return self.takes(raw)


def read_all(
    rows: Mapping[str, Setting], environ: Mapping[str, str], given: Mapping[str, Raw]
) -> dict[str, Any]:
    """The value of each row, by its key; raises as `Setting.read`."""
    return {key: row.read(environ, given) for key, row in rows.items()}


def setting(variable: str, option: str = "", **row: Any) -> Any:
    """A field of `ServerSettings` that is read as a row says."""
    return dataclasses.field(metadata={"row": Setting(variable=variable, option=option, **row)})
