"""`pasture try` on one site, in its own environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.sites.environment import run, variables
from benchmarks.sites.site import Site

POLICIES = ("stock", "warm-freeze", "seal")
BOOT_S = 300


def measure(site: Site, python: Path, requests: int, workers: int) -> dict[str, Any]:
    """The document of the trial, with what the seal said.

    Raises:
        SiteFailed: the trial ended with an error.
    """
    report = site.data / "report.json"
    words: list[object] = [python, "-m", "pasture", "try", site.app]
    for policy in POLICIES:
        words += ["--policy", policy]
    words += ["-w", workers, "-n", requests, "--urls-file", site.data / "urls.txt"]
    if (site.data / "headers.txt").exists():
        words += ["--headers-file", site.data / "headers.txt"]
    words += ["--json", report, "--log-dir", site.data / "logs", "--chdir", site.data / site.chdir]
    words += ["--server-timeout", BOOT_S, "--load-python", sys.executable]
    for name, value in variables(site).items():
        if name in site.env or name == "PYTHONPATH":
            words += ["--env", f"{name}={value}"]
    told = run([*words, "--", *site.arguments], variables(site), site.data)
    (site.data / "try.txt").write_text(told)
    document: dict[str, Any] = json.loads(report.read_text())
    return document
