"""`pasture policies`: the table of policies and their steps."""

from pathlib import Path

import click
from rich.table import Table

from pasture.display.atomic import write_json
from pasture.display.json_option import json_option
from pasture.display.terminal import output_terminal
from pasture.sealing.policy import DEFAULT_POLICY, POLICIES, Policy

_STEPS = ("while loading", "before the fork", "in the child", "at its exit")


@click.command("policies")
@json_option("them")
def command(json_file: Path | None) -> None:
    """List the policies and the steps that each takes."""
    steps = {
        policy.name: dict(zip(_STEPS, _steps(policy), strict=True)) for policy in POLICIES.values()
    }
    if json_file is not None:
        found = [
            {"name": one.name, "choose": one.choose, "steps": steps[one.name]}
            for one in POLICIES.values()
        ]
        write_json(json_file, {"schema": 1, "default": DEFAULT_POLICY, "policies": found})
    table = Table(box=None, pad_edge=False)
    table.add_column("policy", style="bold", no_wrap=True)
    for title in _STEPS:
        table.add_column(title)
    for name, taken in steps.items():
        shown = f"{name} *" if name == DEFAULT_POLICY else name
        table.add_row(shown, *map(", ".join, taken.values()))
    terminal = output_terminal(json_file)
    terminal.print(table)
    terminal.print(f"\n* the default, {DEFAULT_POLICY}\n\nWhen to choose which:\n")
    choices = Table.grid(padding=(0, 2))
    for policy in POLICIES.values():
        choices.add_row(policy.name, policy.choose)
    terminal.print(choices)


def _steps(policy: Policy) -> tuple[tuple[str, ...], ...]:
    return policy.loading, (*policy.prepare, *policy.heap), policy.in_child, policy.at_exit
