"""`pasture try APP`: the saving of each policy for this application.

Owns arguments and the end: turns them into a `TrialPlan`, shows progress, prints and writes the
result.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from pasture.errors import AnswersDiffer, AppDidNotAnswer, MemoryGrew, UsageError
from pasture.sealing.policy import find_policy
from pasture.warmup.requests import Requests, parse_header, parse_request, read_requests
from pasture_tools.cli.numbers import Number, Whole
from pasture_tools.display import progress
from pasture_tools.display.atomic import require_writable, write_atomically, write_json
from pasture_tools.display.json_option import json_option
from pasture_tools.display.pages import require_packages
from pasture_tools.display.sections import SectionedCommand
from pasture_tools.display.terminal import error_terminal, output_terminal
from pasture_tools.display.units import percent
from pasture_tools.launch.session import stop_on_signals
from pasture_tools.trial import TrialPlan, TrialResult, attempt_trial, program, table
from pasture_tools.trial.baseline import (
    Baseline,
    Comparison,
    compare,
    read_baseline,
    require_same_trial,
)
from pasture_tools.trial.document import as_document
from pasture_tools.trial.html import render_html
from pasture_tools.trial.plan import DEFAULT_POLICIES, DEFAULT_SERVER, DEFAULT_URLS, check_plan
from pasture_tools.trial.servers import SERVERS
from pasture_tools.trial.servers.facts import TRIED
from pasture_tools.trial.trial import describe_interpreter, describe_machine

_FILE = click.Path(path_type=Path)
_POSITIVE = Whole(min=1)
_NAMES = max(map(len, TRIED))
_EPILOG = "\b\nPolicies:\n" + "\n".join(
    f"  {policy.name:{_NAMES}}  {policy.choose}" for policy in TRIED.values()
)


@click.command(
    "try",
    cls=SectionedCommand,
    headings={
        "server": "What is compared",
        "requests": "Load",
        "warm": "Warm-up",
        "environment": "Server",
        "json_file": "Results",
    },
    epilog=_EPILOG,
)
@click.argument("app")
@click.argument("server_args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--server",
    type=click.Choice(tuple(SERVERS)),
    default=DEFAULT_SERVER,
    show_default=True,
    help="Server that runs APP.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help=f"Policy to try; repeat for more.  [default: {', '.join(DEFAULT_POLICIES)}]",
)
@click.option(
    "-w", "--workers", type=_POSITIVE, default=4, show_default=True, help="Workers of the server."
)
@click.option(
    "--rounds",
    type=_POSITIVE,
    default=1,
    show_default=True,
    help="Runs of each policy; figures are medians.",
)
@click.option(
    "-n",
    "--requests",
    type=_POSITIVE,
    default=2000,
    show_default=True,
    help="Requests of each run.",
)
@click.option(
    "-c", "--concurrency", type=_POSITIVE, help="Simulated users.  [default: one a worker]"
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="[METHOD] PATH",
    help="Request of the load; repeat for more.  [default: GET /]",
)
@click.option(
    "--urls-file",
    "urls_files",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="File with one [METHOD] PATH a line, or 'Name: value' for a header; repeat for more.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Header of each request; repeat for more.",
)
@click.option(
    "--warm",
    "warm",
    multiple=True,
    metavar="[METHOD] PATH",
    help="Request served before the fork by policies with a warm-up; repeat for more.  "
    "[default: each distinct URL of the load]",
)
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable for the server, as a PASTURE_ one, which it does not inherit; repeat for more.",
)
@click.option(
    "--server-timeout",
    type=Number(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit of a boot and of each request; the warm-up has its own.",
)
@json_option("all figures")
@click.option("--html", "html_file", type=_FILE, metavar="FILE", help="Write a page with plots.")
@click.option(
    "--baseline",
    type=_FILE,
    metavar="FILE",
    help="Compare with this JSON of an earlier trial; exit with 19 if something grew.",
)
@click.option(
    "--max-growth",
    metavar="PERCENT",
    help="Growth against the baseline that is allowed.  [default: 10%]",
)
@click.option(
    "--figure",
    metavar="REGEX",
    help="Number that a program prints: the regex's first group, as in 'items/s: ([0-9.]+)'.",
)
@click.option("--log-dir", type=_FILE, metavar="DIR", help="Keep the logs of server and load.")
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Run one load against APP under several policies and compare.

    APP is an application as its server names it, as in mysite.wsgi:application. What follows
    `--` goes to the server; under gunicorn an ASGI application needs a worker for it (`-k`). Each
    policy gets a server of its own in this folder, on a free port of 127.0.0.1; nothing is left
    running.

    A program that forks workers by itself, and ends by itself, takes the place of APP:

        pasture try -- python train.py
    """
    if program.is_program(options["app"]):
        _try_program(context, options)
        return
    if options.pop("figure") is not None:
        raise UsageError("--figure is for programs", hint="as in pasture try -- python train.py")
    json_file, html_file = options.pop("json_file"), options.pop("html_file")
    baseline = _baseline(options.pop("baseline"), options.pop("max_growth"), json_file)
    plan = _plan(**options)
    for path in filter(None, (json_file, html_file)):
        require_writable(path)
    if html_file is not None:
        require_packages("--html", "jinja2", extra="trial")
    check_plan(plan)
    if baseline is not None:
        now = describe_interpreter()
        require_same_trial(baseline.document, plan, now, describe_machine())
    with stop_on_signals() as stop, progress.for_console(error_terminal()) as display:
        result = attempt_trial(plan, display.show, stop)
    comparison = _report(result, json_file, html_file, baseline)
    _fail(result)
    _fail_if_grown(comparison)


_FOR_PROGRAMS = frozenset(
    "app server_args policies rounds environment json_file log_dir figure".split()
)


def _try_program(context: click.Context, options: dict[str, Any]) -> None:
    """Run a program, which has no server and no requests, under each policy."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        if given and name not in _FOR_PROGRAMS:
            raise UsageError(f"{parameter.opts[-1]} is for servers, not for a program")
    json_file = options["json_file"]
    if json_file is not None:
        require_writable(json_file)
    for policy in options["policies"]:
        find_policy(policy)
    plan = program.plan_of(
        (options["app"], *options["server_args"]),
        policies=options["policies"],
        figure=options["figure"],
        rounds=options["rounds"],
        env=dict(map(_variable, options["environment"])),
        log_dir=options["log_dir"],
    )
    with stop_on_signals() as stop, progress.for_console(error_terminal()) as display:
        runs = program.run_program(plan, display.show, stop)
    terminal = output_terminal(json_file)
    terminal.print(program.table_of(plan, runs))
    for sentence in program.remarks_on(plan, runs):
        terminal.print(Text(sentence))
    if json_file is not None:
        write_json(json_file, program.as_document(plan, runs))


def _plan(
    *,
    policies: tuple[str, ...],
    urls: tuple[str, ...],
    urls_files: tuple[Path, ...],
    headers: tuple[str, ...],
    warm: tuple[str, ...],
    environment: tuple[str, ...],
    server_timeout: float,
    **same: Any,
) -> TrialPlan:
    """The plan that the options describe; `same` are the options that are passed on."""
    named = Requests(requests=tuple(map(parse_request, urls)))
    walk = sum(map(read_requests, urls_files), named)
    apart = urls or headers or warm
    return TrialPlan(
        policies=policies or SERVERS[same["server"]].policies,
        urls=walk.requests or DEFAULT_URLS,
        headers=(*map(parse_header, headers), *walk.headers),
        warm=tuple(map(parse_request, warm)) or None,
        warm_file=urls_files[0] if len(urls_files) == 1 and not apart else None,
        env=dict(map(_variable, environment)),
        server_timeout_s=server_timeout,
        **same,
    )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"not a variable: {text!r}", hint="write it as NAME=VALUE")
    return name, value


def _baseline(path: Path | None, max_growth: str | None, json_file: Path | None) -> Baseline | None:
    if path is None and max_growth is not None:
        raise UsageError("--max-growth needs something to compare with", hint="--baseline FILE")
    if path is not None and json_file is not None and json_file.resolve() == path.resolve():
        raise UsageError("--json would overwrite the baseline", hint="write to another file")
    return None if path is None else read_baseline(path, max_growth or "10%")


def _report(
    result: TrialResult, json_file: Path | None, html_file: Path | None, baseline: Baseline | None
) -> Comparison | None:
    """Print and write the results; returns the comparison with a baseline, if any."""
    terminal = output_terminal(json_file)
    table.print_result(result, terminal)
    document = as_document(result)
    comparison = None if baseline is None else compare(baseline, document)
    if comparison is not None:
        document["baseline"] = comparison.as_document()
        for sentence in comparison.sentences():
            terminal.print(Text(sentence))
    if json_file is not None:
        write_json(json_file, document)
    if html_file is not None:
        write_atomically(html_file, render_html(result, datetime.now()))
    return comparison


def _fail_if_grown(comparison: Comparison | None) -> None:
    """Fail if a figure grew. Called last: a trial that failed has no figures to compare."""
    if comparison is not None and comparison.grown:
        words = dict.fromkeys(f"{c.figure.heading} of {c.policy}" for c in comparison.grown)
        raise MemoryGrew(
            f"{', '.join(words)} grew by more than {percent(comparison.baseline.max_growth)}",
            hint=f"if that is intended, keep this trial's --json as {comparison.baseline.path}",
        )


def _fail(result: TrialResult) -> None:
    """Raise if a run failed, or if answers differ."""
    if result.interrupted:
        raise KeyboardInterrupt
    if result.failures:
        failure = result.failures[0]
        raise type(failure.error)(
            f"{failure.policy}: {failure.error.message}", hint=failure.error.hint
        )
    late = [p.policy for p in result.policies if p.timeouts and not result.reference.timeouts]
    if late:
        raise AppDidNotAnswer(
            f"requests timed out under {', '.join(late)}, and none under {result.reference.policy}",
            hint="the notes under the table name the URLs; raise --server-timeout if a request "
            "may take longer",
        )
    if not result.answers_agree:
        differing = [p.policy for p in result.policies if p.disagreements]
        raise AnswersDiffer(
            f"{', '.join(differing)} answered differently from {result.reference.policy}",
            hint="the notes under the table name the URLs",
        )
