"""`pasture doctor [PID | -- COMMAND]`: the obstacles to shared memory.

Owns arguments only.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pasture.errors import NoPrivilege, ObstaclesFound, PastureError, UsageError
from pasture.proc import tree
from pasture.trust.untrusted_text import printable
from pasture_tools.cli.numbers import PID, Number
from pasture_tools.display.atomic import write_json
from pasture_tools.display.json_option import json_option
from pasture_tools.display.terminal import error_terminal, output_terminal
from pasture_tools.display.units import megabytes
from pasture_tools.doctor import checks, hung, server, sharing, trouble, waits
from pasture_tools.doctor.boot import boot
from pasture_tools.doctor.evidence import Evidence, gather
from pasture_tools.doctor.findings import as_document, print_findings, verdict

if TYPE_CHECKING:
    from pasture_tools.explain.built import Built

_TRIES = 3


@click.command("doctor")
@click.argument("target", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--wait",
    "wait_s",
    type=Number(min=1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a COMMAND may take to fork its workers.",
)
@click.option(
    "--hung",
    "worker",
    type=PID,
    metavar="PID",
    help="Say only what each thread of this worker waits for.",
)
@click.option(
    "--sealed",
    type=PID,
    metavar="PID",
    help="Say the state of this server in one line; exit with 0 if it is sealed.",
)
@json_option("the findings")
def command(
    target: tuple[str, ...],
    wait_s: float,
    worker: int | None,
    sealed: int | None,
    json_file: Path | None,
) -> None:
    """Find the obstacles to shared memory.

    TARGET is the pid of a pre-fork server's master, or after `--` a command that starts
    one: it is run until it has forked workers, watched for what it does at the fork, and stopped.
    Without TARGET, the one pre-fork server of this user is looked for. Ends with status 15
    if there is an obstacle.
    """
    if sealed is not None:
        _require_sealed(sealed)
        return
    if worker is not None:
        if target:
            raise UsageError("--hung looks at one worker", hint="give only its pid")
        _hung(worker, json_file)
        return
    is_running = not target or (len(target) == 1 and target[0].isdecimal())
    with error_terminal().status("looking at it" if is_running else "waiting for its workers"):
        if not is_running:
            evidence = boot(target, wait_s)
        elif target:
            evidence = gather(server.server_of(int(target[0]), "doctor"))
        else:
            evidence = gather(tree.only_master("doctor"))
        findings = checks.diagnose(evidence)
        built = built_alone(evidence) if is_running else []
    if not any(one.check == "preload" and one.is_obstacle for one in findings):
        findings = (
            *sharing.own_imports(
                {one.module: one.bytes for one in built}, [one.largest for one in built]
            ),
            *findings,
        )
    if json_file is not None:
        document = as_document(evidence.master_pid, findings)
        document["state"] = asdict(evidence.state)
        document["built"] = [{"entry": one.entry, "bytes": one.bytes} for one in built]
        write_json(json_file, document)
    terminal = output_terminal(json_file)
    print_findings(findings, terminal, str(evidence.state))
    if built:
        terminal.print("a worker imported for itself, about (lines for a file of --auto):")
    for one in built:
        terminal.print(printable(f"{megabytes(one.bytes):>10}  {one.entry}"), markup=False)
    found = sum(finding.is_obstacle for finding in findings)
    if found:
        raise ObstaclesFound(verdict(found), hint="each says above how to fix it")


def _require_sealed(pid: int) -> None:
    """Print the state in one line, and exit with 0 or 15, for probes of orchestrators."""
    try:
        tree.require_memory_of(pid)
        state = server.state_of(server.server_of(pid, "doctor"))
    except PastureError as error:
        raise ObstaclesFound(f"not known to be sealed: {error.message}") from None
    if state.kind != "sealed":
        raise ObstaclesFound(str(state))
    click.echo(state)


def _hung(pid: int, json_file: Path | None) -> None:
    tree.require_memory_of(pid)
    process = waits.look(pid)
    if not any(one.call or one.calls for one in process.threads[:1]):
        tree.require_memory_of(pid)  # it may have ended meanwhile
        raise NoPrivilege(
            f"not allowed to see what process {pid} waits for",
            hint="run pasture as root, or as its user where kernel.yama.ptrace_scope is 0",
        )
    findings = tuple(hung.findings(process))
    if json_file is not None:
        threads = {"threads": list(map(asdict, process.threads)), "noted": process.noted}
        lost = {"lost": list(map(asdict, process.lost))}
        write_json(json_file, {**as_document(pid, findings), **threads, **lost})
    terminal = output_terminal(json_file)
    print_findings(findings, terminal)
    for thread in process.threads:
        terminal.print(f"  thread {thread}")
    for one in process.lost:
        terminal.print(f"  lost thread {one}")
    if process.why_no_frames:
        terminal.print(f"  {process.why_no_frames}")
    if any(finding.is_obstacle for finding in findings):
        raise ObstaclesFound(verdict(len(findings)), hint="each says above how to fix it")


def built_alone(evidence: Evidence) -> list[Built]:
    """The modules that a worker imported itself; empty if they cannot be read."""
    if not evidence.workers or find_spec("numpy") is None:
        return []
    from pasture_tools.explain.built import built_alone

    # A child that is replaced after each task may end meanwhile, or have started just now.
    best: list[Built] = []
    grown = (one.memory.private_bytes - one.at_start_bytes for one in evidence.workers)
    grew = max(grown) >= trouble.MIN_PRIVATE_BYTES  # large enough for imports to matter
    for _ in range(_TRIES):
        with suppress(PastureError):
            best = max(best, built_alone(evidence.master_pid), key=_total)
        if _total(best) >= trouble.MIN_PRIVATE_BYTES or not grew:
            break
    return best


def _total(built: list[Built]) -> int:
    return sum(one.bytes for one in built)
