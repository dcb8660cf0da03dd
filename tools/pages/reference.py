"""docs/reference.md out of the library, the commands and the errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

import pasture
from pasture.errors import PastureError
from pasture.serving.settings import SETTINGS
from pasture_tools.cli.main import _PAGES as PAGES
from pasture_tools.cli.main import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"
LEFT_OUT = ("lab",)
TEXT = """\
<!-- Written by `make pages`. -->

# Reference

Settings of servers have [a page of their own](settings.md), metrics are in
[operate.md](operate.md), the codes of reasons in [troubleshooting.md](troubleshooting.md).
[stability.md](stability.md) says which names stay.

"""


COMMANDS_TEXT = """\
`pasture COMMAND --help` says more. `--json -` writes to standard output, in place of the table. A
shell completes commands and options after `eval "$(_PASTURE_COMPLETE=bash_source pasture)"` in
`~/.bashrc`; `zsh_source` is for zsh, and for fish `_PASTURE_COMPLETE=fish_source pasture | source`.
"""


def library() -> Iterator[str]:
    """A section a public name: signature, and its docstring."""
    yield "## Library\n\nEach name is one of `pasture.__all__`.\n"
    for name in sorted(pasture.__all__, key=str.lower):
        value = getattr(pasture, name)
        if inspect.isclass(value) and PastureError in value.__bases__:
            continue  # the table of exit codes has it
        text = inspect.getdoc(value) if callable(value) else None
        yield f"### `{name}`\n"
        if callable(value) and not name.endswith("Report"):
            yield f"    {_signature(name, value)}\n"
        yield (_markdown(text) if text else "The policies by name.") + "\n"


def _signature(name: str, value: object) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return f"exception {name}"
    text = inspect.signature(value).format(quote_annotation_strings=False)  # type: ignore[arg-type]
    kind = "class " if inspect.isclass(value) else ""
    text = text.removesuffix(" -> None") if kind else text
    text = re.sub(r"<[^<>]*(?:<\w+>)?[^<>]* at 0x\w+>", "...", text)  # a default that is a function
    return f"{kind}{name}{re.sub(r'(collections[.]abc|typing|pasture[.a-z_]*)[.]', '', text)}"


def _markdown(text: str) -> str:
    """A docstring of Google's form: its sections become lists."""
    lines: list[str] = []
    for line in text.splitlines():
        heading = re.fullmatch(r"(Args|Attributes|Returns|Raises|Yields):", line)
        entry = re.fullmatch(r"    (\w+(?:, \w+)*): (.*)", line)
        if heading:
            lines += [f"*{heading[1]}*", ""]
        elif entry:
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        else:
            lines.append(
                re.sub(r"^    +", "  " if lines and lines[-1].startswith(("-", " ")) else "", line)
            )
    return "\n".join(lines).replace("``", "`")


def commands() -> Iterator[str]:
    """A section a command: usage, text, and a list of its options."""
    yield f"## Commands\n\n{COMMANDS_TEXT}"
    context = click.Context(cli, info_name="pasture")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None and name not in LEFT_OUT:
            yield from _command(command, click.Context(command, info_name=name, parent=context))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    words = " ".join(command.collect_usage_pieces(context))
    yield f"### `{context.command_path}`\n\n    {context.command_path} {words}\n"
    guide = PAGES.get(context.info_name or "", context.info_name) if context.parent else None
    is_listed = guide and (PAGE.parent / f"{guide}.md").exists()
    yield _help(command) + (f" [Guide]({guide}.md)." if is_listed else "") + "\n"
    listed = {name for name, row in SETTINGS.items() if row.option}
    rows = [
        one.get_help_record(context)
        for one in command.params  # --help is not one of them
        if isinstance(one, click.Option) and not (context.info_name == "run" and one.name in listed)
    ]
    if context.info_name == "run":
        yield "Settings are options, too: [their page](settings.md).\n"
    lines = [f"- `{_line(found[0])}`: {_line(found[1])}" for found in rows if found]
    if lines:
        yield "\n".join(lines) + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _command(below, click.Context(below, info_name=name, parent=context))


def _help(command: click.Command) -> str:
    """The first paragraph: guides and `--help` have the rest."""
    return inspect.cleandoc(command.help or "").replace("\b\n", "").partition("\n\n")[0]


def _line(text: str) -> str:
    text = text.replace("; - is standard output, in place of the table", "")
    return " ".join(text.split()).replace("*", "\\*")


def exit_codes() -> Iterator[str]:
    """A table of all errors by their exit code."""
    yield "## Exit codes\n\n| code | error | |\n| --- | --- | --- |"
    kinds = sorted(_kinds(PastureError), key=lambda kind: kind.exit_code)
    for kind in (PastureError, *kinds):
        yield f"| {kind.exit_code} | `{kind.__name__}` | {(kind.__doc__ or '').splitlines()[0]} |"
    yield "| 130 | | Interrupted: by Ctrl-C, TERM or HUP. |"


def _kinds(base: type[PastureError]) -> Iterator[type[PastureError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def page() -> str:
    """The whole page."""
    parts = (library, commands, exit_codes)
    return TEXT + "\n".join(line for part in parts for line in part()) + "\n"
