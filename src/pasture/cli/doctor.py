"""`pasture doctor [PID | -- COMMAND]`: what stands in the way of shared memory.

Owns arguments only.
"""

from __future__ import annotations

from pathlib import Path

import click

from pasture.display.atomic import write_json
from pasture.display.terminal import output_terminal
from pasture.doctor import checks
from pasture.doctor.boot import boot
from pasture.doctor.evidence import gather
from pasture.doctor.findings import as_document, print_findings, verdict
from pasture.errors import ObstaclesFound
from pasture.proc import tree


@click.command("doctor")
@click.argument("target", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a COMMAND may take to fork its workers.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the findings as JSON.",
)
def command(target: tuple[str, ...], wait_s: float, json_file: Path | None) -> None:
    """Find out what stands in the way of shared memory.

    TARGET is the pid of a pre-fork server's master, or after `--` a command that starts
    one: it is run until it has forked workers, watched for what it does at the fork, and stopped.
    Without TARGET, the one pre-fork server of this user is looked for. Ends with status 15
    if there is an obstacle. See docs/diagnose.md.
    """
    if len(target) == 1 and target[0].isdecimal():
        evidence = gather(tree.server_of(int(target[0]), "doctor"))
    elif target:
        evidence = boot(target, wait_s)
    else:
        evidence = gather(tree.only_master("doctor"))
    findings = checks.diagnose(evidence)
    if json_file is not None:
        write_json(json_file, as_document(evidence.master_pid, findings))
    print_findings(findings, output_terminal())
    found = sum(finding.is_obstacle for finding in findings)
    if found:
        raise ObstaclesFound(verdict(found), hint="each says above how to fix it")
