"""`pasture policies`: the table of policies and their steps."""

import click
from rich.table import Table

from pasture.display.terminal import output_terminal
from pasture.sealing.policy import DEFAULT_POLICY, POLICIES


@click.command("policies")
def command() -> None:
    """List the policies and the steps that each takes."""
    table = Table(box=None, pad_edge=False)
    table.add_column("policy", style="bold", no_wrap=True)
    for title in ("while loading", "before the fork", "in the child", "at its exit"):
        table.add_column(title)
    for policy in POLICIES.values():
        name = f"{policy.name} *" if policy.name == DEFAULT_POLICY else policy.name
        before_fork = (*policy.prepare, *policy.heap)
        steps = (policy.loading, before_fork, policy.in_child, policy.at_exit)
        table.add_row(name, *map(", ".join, steps))
    terminal = output_terminal()
    terminal.print(table)
    terminal.print(f"\n* the default, {DEFAULT_POLICY}\n\nWhen to choose which:\n")
    choices = Table.grid(padding=(0, 2))
    for policy in POLICIES.values():
        choices.add_row(policy.name, policy.choose)
    terminal.print(choices)
