"""`pasture doctor [PID | -- COMMAND]`: what stands in the way of shared memory.

Owns arguments, and the process of a command that it starts.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from pasture.display.atomic import write_json
from pasture.display.terminal import output_terminal
from pasture.doctor import checks, table
from pasture.doctor.evidence import Evidence, gather
from pasture.doctor.notes import parse_notes
from pasture.errors import ObstaclesFound, ServerFailed, UsageError
from pasture.launch.session import Group
from pasture.proc import tree
from pasture.proc.smaps import require_smaps_rollup
from pasture.servers.settings import SETTINGS
from pasture.trust.private_files import temporary_folder

_WATCH = Path(checks.__file__).with_name("watch")
_SETTLE_S = 2.0
_GRACE_S = 15.0


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
        evidence = gather(int(target[0]))
    elif target:
        evidence = _try(target, wait_s)
    else:
        evidence = gather(tree.only_master())
    findings = checks.diagnose(evidence)
    if json_file is not None:
        write_json(json_file, table.as_document(evidence.master_pid, findings))
    table.print_findings(findings, output_terminal())
    found = sum(finding.is_obstacle for finding in findings)
    if found:
        raise ObstaclesFound(table.verdict(found), hint="each says above how to mend it")


def _try(arguments: tuple[str, ...], wait_s: float) -> Evidence:
    """Run a server until it has workers, look at it, and stop it with all that came of it."""
    require_smaps_rollup()
    with temporary_folder("pasture-doctor-") as folder:
        told, report = folder / "told", folder / "report.json"
        told.touch()
        path = os.pathsep.join(filter(None, (str(_WATCH), os.environ.get("PYTHONPATH"))))
        environ = {**os.environ, "PYTHONPATH": path, "PASTURE_DOCTOR_FILE": str(told)}
        report = Path(environ.setdefault(SETTINGS["report_file"].variable, str(report)))
        with _start(arguments, environ, folder / "log") as server:
            _wait_for_workers(server, wait_s)
            _wait_until_quiet(told, wait_s)
            notes = parse_notes(told.read_text("utf-8", "replace"))
            evidence = gather(server.pid, notes, report)
            server.terminate()
            server.exit_code(_GRACE_S)
    return evidence


def _start(arguments: tuple[str, ...], environ: dict[str, str], log: Path) -> Group:
    try:
        return Group(arguments, log=log, env=environ)
    except ServerFailed as error:
        raise UsageError(error.message, hint="give a pid, or a command after --") from None


def _wait_until_quiet(told: Path, wait_s: float) -> None:
    """Wait until a command imports nothing more, for some time at most."""
    end = time.monotonic() + wait_s
    before = -1
    while (size := told.stat().st_size) != before and time.monotonic() < end:
        before = size
        time.sleep(_SETTLE_S)


def _wait_for_workers(server: Group, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while not (tree.forked_workers(server.pid) or tree.spawned_workers(server.pid)):
        code = server.exit_code(0.1)
        if code is not None:
            raise server.failure(f"the command ended with status {code} before it forked a worker")
        if time.monotonic() > end:
            raise ServerFailed(
                f"the command forked no worker in {wait_s:g} s",
                hint="give the command of a pre-fork server, without a shell around it; "
                "or raise --wait",
            )
