"""`pasture doctor [PID | -- COMMAND]`: what stands in the way of shared memory.

Owns arguments, and the process of a command that it starts.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import click
import psutil

from pasture.cli.explain import only_server
from pasture.display.atomic import write_json
from pasture.display.terminal import output_terminal
from pasture.doctor import checks, table
from pasture.doctor.evidence import Evidence, gather
from pasture.errors import ObstaclesFound, ServerFailed, UsageError
from pasture.proc import tree
from pasture.proc.smaps import require_smaps_rollup
from pasture.trust.private_files import temporary_folder

_GC_WATCH = Path(checks.__file__).with_name("gc_watch")
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
    one: it is run until it has forked workers, watched for gc.enable(), and stopped.
    Without TARGET, the one pre-fork server of this user is looked for. Ends with status 15
    if there is an obstacle. See docs/diagnose.md.
    """
    if len(target) == 1 and target[0].isdecimal():
        evidence = gather(int(target[0]))
    elif target:
        evidence = _try(target, wait_s)
    else:
        evidence = gather(only_server())
    findings = checks.diagnose(evidence)
    if json_file is not None:
        write_json(json_file, table.as_document(evidence.master_pid, findings))
    table.print_findings(findings, output_terminal())
    found = sum(finding.is_obstacle for finding in findings)
    if found:
        raise ObstaclesFound(table.verdict(found), hint="each says above how to mend it")


def _try(arguments: tuple[str, ...], wait_s: float) -> Evidence:
    """Run a server until it has workers, look at it, and stop it."""
    require_smaps_rollup()
    with temporary_folder("pasture-doctor-") as folder:
        callers = folder / "callers"
        callers.touch()
        path = os.pathsep.join(filter(None, (str(_GC_WATCH), os.environ.get("PYTHONPATH"))))
        environ = {**os.environ, "PYTHONPATH": path, "PASTURE_DOCTOR_GC_FILE": str(callers)}
        try:
            process = subprocess.Popen(arguments, env=environ, stdout=subprocess.DEVNULL)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{arguments[0]} cannot be started: {error}",
                hint="give a pid, or a command after --",
            ) from None
        try:
            master = _wait_for_workers(process, wait_s)
            time.sleep(_SETTLE_S)
            return gather(master, tuple(callers.read_text("utf-8", "replace").splitlines()))
        finally:
            _stop(process)


def _wait_for_workers(process: subprocess.Popen[bytes], wait_s: float) -> int:
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise ServerFailed(
                f"the command ended with status {process.returncode} before it forked a worker",
                hint="run it by itself first",
            )
        if tree.forked_workers(process.pid):
            return process.pid
        time.sleep(0.1)
    raise ServerFailed(
        f"the command forked no worker in {wait_s:g} s",
        hint="give the command of a pre-fork server, without a shell around it; or raise --wait",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server, and the processes below it that it leaves behind."""
    below = _below(process.pid)
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for left in below:
        with suppress(psutil.NoSuchProcess):  # psutil looks whether a pid is another's by now
            left.kill()


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
