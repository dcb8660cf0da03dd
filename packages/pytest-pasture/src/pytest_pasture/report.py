"""The times and the memory of a run: in the terminal's summary, and as a JSON document."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_pasture.controller import MoldProcess


class Report:
    """Collects what workers send at their ends."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.started = time.perf_counter()
        self.mold: MoldProcess | None = None
        self.reasons: list[str] = []
        self.workers: dict[str, dict[str, Any]] = {}

    def plain(self, reason: str) -> None:
        """Report in one line why workers are xdist's own."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get("pasture")
        if sent is not None:
            first = sent["first_test"]
            self.workers[node.gateway.id] = {
                "first_test_s": first and first - self.started,
                "fork_to_first_test_s": first and first - sent["forked"],
                "private_bytes": sent["private_bytes"],
            }

    def document(self) -> dict[str, Any]:
        """Everything, for programs."""
        sealed = self.mold.sealed if self.mold else None
        return {
            "workers": self.workers,
            "collection": sealed._asdict() if sealed else None,
            "plain": self.reasons,
            "collected_again": self.mold.why_again if self.mold else None,
        }

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        path: Path | None = self.config.getoption("pasture_report")
        if path is not None:
            try:
                path.write_text(json.dumps(self.document(), indent=2) + "\n")
            except OSError as error:
                terminalreporter.write_line(f"pasture: no report: {error}")
        if self.config.option.verbose < 0 and not self.reasons:
            return
        for line in self.lines():
            terminalreporter.write_line(f"pasture: {line}")

    def lines(self) -> list[str]:
        """The lines for a person."""
        lines = [f"plain xdist: {reason}" for reason in self.reasons]
        if self.mold is not None and self.mold.why_again:
            lines.append(f"collected again: {self.mold.why_again}")
        sealed = self.mold.sealed if self.mold else None
        if sealed is not None:
            collect_s, seal_s = sealed.seconds["collect"], sealed.seconds["seal"]
            how = f"tests collected in {collect_s:.1f} s, sealed in {seal_s:.1f} s"
            if sealed.kept_s is not None:
                how = f"tests, kept for {sealed.kept_s:.0f} s"
                if sealed.again:
                    how += f"; {sealed.again} files collected again in {collect_s:.1f} s"
            lines += [f"{sealed.tests} {how}", *sealed.notes]
        ran = [one for one in self.workers.values() if one["first_test_s"] is not None]
        if ran:
            last = max(one["first_test_s"] for one in ran)
            private = max(one["private_bytes"] for one in ran) / 1e6
            lines.append(
                f"first test of the last worker after {last:.1f} s; "
                f"private memory of a worker: up to {private:.0f} MB"
            )
        return lines
