"""Boots gunicorn and uvicorn with each agent, and writes docs/results/agents.md.

Without names: all of agents.toml, and the page. Each boot's outcome is kept in results.jsonl; a run
takes up where the last one left off, and --again starts over. The exit status is 1 where
marks were lost or came twice, where the seal named what copes with a fork, and where a server was
sealed or not against its row.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product

import click

from matrix.agents.catalog import Agent, load_agents, without
from matrix.agents.kept import keep, kept
from matrix.agents.page import PAGE, Row, complaints, in_short, page
from matrix.agents.runs import COMMANDS, Run, boot

MINORS = ("3.13", "3.12", "3.14")
THIS_MINOR = ".".join(map(str, sys.version_info[:2]))
WITH_STOCK = MINORS[:1]
"""Where the same is booted without a seal, too, and gunicorn with reforks."""


def boots(
    agents: Sequence[Agent], servers: Sequence[str], minors: Sequence[str], with_stock: bool
) -> Iterator[tuple[Agent, str, str, str]]:
    """Agent, server, interpreter and policy of each boot; the sealed ones first."""
    for minor, agent, server in product(minors, agents, servers):
        yield agent, server, minor, "seal"
    for minor, agent, server in product(minors if with_stock else (), agents, servers):
        if minor in WITH_STOCK:
            yield agent, server, minor, "stock"
            if server == "gunicorn" and not agent.plain:
                yield agent, server, minor, "refork"


def explain(pid: int) -> None:
    """Why the private pages of a worker are private."""
    subprocess.run([sys.executable, "-m", "pasture", "explain", str(pid)], check=True)


def result(agent: Agent, server: str, minor: str, policy: str, again: bool) -> Run:
    """As it is kept; or of a boot now."""
    found = None if again else kept(agent, server, minor, policy)
    if found is None:
        click.echo(f"{agent.name}, {server}, {minor}, {policy}: ", nl=False, err=True)
        found = boot(agent, server, minor, policy)
        click.echo(in_short(found), err=True)
        keep(agent, server, minor, policy, found)
    return found


def kept_rows(alone: Agent, agents: Sequence[Agent], minors: Sequence[str]) -> Iterator[Row]:
    """Rows whose sealed boots are kept."""
    for agent, server, minor in product(agents, COMMANDS, sorted(minors)):
        alone_sealed = kept(alone, server, minor, "seal")
        sealed = kept(agent, server, minor, "seal")
        if alone_sealed is not None and sealed is not None:
            yield Row(
                agent,
                server,
                alone_sealed,
                sealed,
                kept(agent, server, minor, "stock"),
                kept(agent, server, minor, "refork"),
            )


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--python", "minors", multiple=True, default=MINORS, show_default=True)
@click.option("--server", "servers", multiple=True, default=tuple(COMMANDS), show_default=True)
@click.option(
    "--no-stock", is_flag=True, help="Leave out the boots without a seal, and with reforks."
)
@click.option("--again", is_flag=True, help="Boot again what is kept.")
@click.option(
    "--explain",
    "explains",
    is_flag=True,
    help="Show `pasture explain` of a sealed worker, and keep nothing; on this CPython.",
)
@click.option("--page", "page_only", is_flag=True, help="Only write the page, of what is kept.")
def main(
    names: tuple[str, ...],
    minors: tuple[str, ...],
    servers: tuple[str, ...],
    no_stock: bool,
    again: bool,
    explains: bool,
    page_only: bool,
) -> None:
    agents = load_agents()
    alone = without(next(iter(agents.values())))
    unknown = set(names) - set(agents) - {alone.name}
    if unknown:
        raise click.UsageError(
            f"no such agent: {min(unknown)}; agents.toml has {', '.join(agents)}"
        )
    chosen = [alone, *(agents[n] for n in agents if not names or n in names)]
    if explains:
        for agent, server in product(chosen, servers):
            click.echo(f"{agent.name}, {server}:", err=True)
            boot(agent, server, THIS_MINOR, "seal", explain)
        return
    if not page_only:
        for agent, server, minor, policy in boots(chosen, servers, minors, not no_stock):
            result(agent, server, minor, policy, again and (agent is not alone or not names))
    rows = list(kept_rows(alone, [alone, *agents.values()] if page_only else chosen, minors))
    if page_only or not names:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), agents, rows), encoding="utf-8")
    found = list(complaints(rows))
    for line in found:
        click.echo(line, err=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
