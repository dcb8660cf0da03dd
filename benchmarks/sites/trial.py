"""`pasture try` on one site, in its own environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.sites.environment import run, variables
from benchmarks.sites.site import Site

POLICIES = ("stock", "warm-freeze", "seal")
BOOT_S = 300

_USERS_A_WORKER = 4
"""Users keep their connections, and a worker for ASGI takes connections as they come: with one user
a worker some workers get none."""


def measure(site: Site, python: Path, requests: int, workers: int) -> dict[str, Any]:
    """The document of the trial.

    Raises:
        click.ClickException: the trial ended with an error.
    """
    if not site.sealed:
        return _try(site, python, POLICIES, {}, requests, workers)
    others = tuple(policy for policy in POLICIES if policy != "seal")
    document = _try(site, python, others, {}, requests, workers)
    sealed = _try(site, python, ("stock", "seal"), site.sealed, requests, workers)
    document["policies"]["seal"] = sealed["policies"]["seal"]
    document["answers_agree"] &= sealed["answers_agree"]
    return document


def _try(
    site: Site,
    python: Path,
    policies: tuple[str, ...],
    more: Mapping[str, str],
    requests: int,
    workers: int,
) -> dict[str, Any]:
    report = site.data / "report.json"
    words: list[object] = [python, "-m", "pasture", "try", site.app]
    for policy in policies:
        words += ["--policy", policy]
    words += ["-w", workers, "-c", _USERS_A_WORKER * workers, "-n", requests]
    words += ["--urls-file", site.data / "urls.txt"]
    if (site.data / "headers.txt").exists():
        words += ["--headers-file", site.data / "headers.txt"]
    words += ["--json", report, "--log-dir", site.data / "logs", "--chdir", site.data / site.chdir]
    words += ["--server-timeout", BOOT_S]
    known = variables(site)
    for name in ("PYTHONPATH", *site.env):
        words += ["--env", f"{name}={known[name]}"]
    for name, value in more.items():
        words += ["--env", f"{name}={value}"]
    output = run([*words, "--", *site.arguments], known, site.data)
    (site.data / "try.txt").write_text(output)
    document: dict[str, Any] = json.loads(report.read_text())
    return document
