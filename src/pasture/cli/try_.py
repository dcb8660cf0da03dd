"""`pasture try APP`: what each policy would save on this application.

Owns arguments only: turns them into a `TrialPlan`, shows progress, writes the reports.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from pasture.cli._signals import stop_on_signals
from pasture.display import progress
from pasture.display.atomic import require_writable, write_atomically, write_json
from pasture.display.pages import require_html
from pasture.display.terminal import error_terminal, output_terminal
from pasture.errors import AnswersDiffer, UsageError
from pasture.trial import TrialPlan, TrialResult, run_trial, table
from pasture.trial.document import as_document
from pasture.trial.html import render_html
from pasture.trial.plan import DEFAULT_POLICIES, DEFAULT_URLS, LOOPBACK
from pasture.warmup.requests import Requests, parse_header, parse_request, read_requests

_FILE = click.Path(path_type=Path)
_POSITIVE = click.IntRange(min=1)


@click.command("try")
@click.argument("app")
@click.argument("server_args", nargs=-1, type=click.UNPROCESSED)
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
    "--rounds",
    type=_POSITIVE,
    default=1,
    show_default=True,
    help="Runs of each policy; figures are medians.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="[METHOD] PATH",
    help="Request of the load; repeat for more.  [default: GET /]",
)
@click.option("--urls-file", type=_FILE, help="File with one [METHOD] PATH a line.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Header of each request; repeat for more.",
)
@click.option("--headers-file", type=_FILE, help="File with one 'Name: value' a line.")
@click.option("--locustfile", type=_FILE, help="Load of your own, in place of the URLs.")
@click.option(
    "--warm",
    "warm",
    multiple=True,
    metavar="[METHOD] PATH",
    help="Request served before the fork by policies with a warm-up; repeat for more.  "
    "[default: each distinct URL of the load]",
)
@click.option("--warm-file", type=_FILE, help="File with one [METHOD] PATH a line.")
@click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Write all figures as JSON.")
@click.option("--html", "html_file", type=_FILE, metavar="FILE", help="Write a page with plots.")
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable for the server; repeat for more.",
)
@click.option("--chdir", type=_FILE, metavar="DIR", help="Working directory of the server.")
@click.option(
    "--server-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a boot, or one request, may take.",
)
@click.option("--bind", metavar="PORT", help="Port on 127.0.0.1.  [default: a free one]")
@click.option("--log-dir", type=_FILE, metavar="DIR", help="Keep the logs of server and load.")
@click.option(
    "--load-python",
    metavar="PATH",
    help="Interpreter that has Locust, if the application's does not.",
)
def command(**options: Any) -> None:
    """Run the same load against APP under several policies and compare.

    APP is an application as gunicorn names it, as in mysite.wsgi:application. What follows
    `--` goes to gunicorn; an ASGI application needs a worker for it (`-k`). Each policy gets
    a server of its own on a free port of 127.0.0.1; nothing is left running. See docs/try.md.
    """
    json_file, html_file = options.pop("json_file"), options.pop("html_file")
    plan = _plan(**options)
    if html_file is not None:
        require_html("trial")
    for path in filter(None, (json_file, html_file)):
        require_writable(path)
    _report(_run(plan), json_file, html_file)


def _plan(
    *,
    policies: tuple[str, ...],
    urls: tuple[str, ...],
    urls_file: Path | None,
    headers: tuple[str, ...],
    headers_file: Path | None,
    warm: tuple[str, ...],
    warm_file: Path | None,
    environment: tuple[str, ...],
    server_timeout: float,
    bind: str | None,
    load_python: str | None,
    **same: Any,
) -> TrialPlan:
    """The plan that the options describe; `same` are those that need no reading."""
    if same["locustfile"] is not None and (urls or urls_file):
        raise UsageError(
            "--locustfile stands in place of --url and --urls-file", hint="give one or the other"
        )
    if load_python is not None:
        same["load_python"] = load_python
    walk, before_fork = _requests(urls, urls_file), _requests(warm, warm_file)
    common = read_requests(headers_file).headers if headers_file else ()
    return TrialPlan(
        policies=policies or DEFAULT_POLICIES,
        urls=walk.requests or DEFAULT_URLS,
        headers=(*map(parse_header, headers), *common, *walk.headers),
        warm=before_fork.requests or None,
        env=dict(_variable(text) for text in environment),
        server_timeout_s=server_timeout,
        port=None if bind is None else _port(bind),
        **same,
    )


def _requests(lines: tuple[str, ...], path: Path | None) -> Requests:
    """What was named on the command line, then what a file lists."""
    named = Requests(requests=tuple(map(parse_request, lines)))
    return named + read_requests(path) if path else named


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"not a variable: {text!r}", hint="write it as NAME=VALUE")
    return name, value


def _port(text: str) -> int:
    host, _, port = text.rpartition(":")
    if host not in ("", LOOPBACK, "localhost") or not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            f"cannot bind to {text!r}", hint=f"give a port; a trial listens on {LOOPBACK} only"
        )
    return int(port)


def _run(plan: TrialPlan) -> TrialResult:
    with stop_on_signals() as stop, progress.for_console(error_terminal()) as display:
        return run_trial(plan, on_event=display.tell, stop=stop)


def _report(result: TrialResult, json_file: Path | None, html_file: Path | None) -> None:
    """Write and print everything, then fail if the answers were not the same."""
    if json_file is not None:
        write_json(json_file, as_document(result))
    if html_file is not None:
        write_atomically(html_file, render_html(result, datetime.now()))
    table.print_result(result, output_terminal())
    if not result.answers_agree:
        differing = [p.policy for p in result.policies if p.disagreements]
        raise AnswersDiffer(
            f"{', '.join(differing)} answered differently from {result.reference.policy}",
            hint="the notes under the table name the URLs",
        )
