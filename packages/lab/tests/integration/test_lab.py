"""The lab on real processes: a whole run by the command line, its page, and the
servers, limits and other interpreters that experiments are made of.
"""

import html
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
pytest.importorskip("django")
pytest.importorskip("pyuwsgi")

from pasture.errors import NotMeasurable, ServerFailed  # noqa: E402
from pasture_lab.engine import Options, Store, run_lab  # noqa: E402
from pasture_lab.engine.experiment import Bench  # noqa: E402
from pasture_lab.engine.figures import Measured, curve  # noqa: E402
from pasture_lab.engine.store import Kept  # noqa: E402
from pasture_lab.experiments import EXPERIMENTS, growth  # noqa: E402
from pasture_lab.measurements import instagram_site, large_objects  # noqa: E402
from pasture_lab.measurements.instagram_site import Variant  # noqa: E402
from pasture_lab.processes import cgroup, httperf, nginx  # noqa: E402
from pasture_lab.processes.client import burst, get  # noqa: E402
from pasture_lab.processes.server import SITES, ServerPlan, median, serving  # noqa: E402
from pasture_lab.report import plots  # noqa: E402
from pasture_lab.report.document import as_document  # noqa: E402
from pasture_lab.report.html import render_html  # noqa: E402
from pasture_tools.launch.session import Group  # noqa: E402

REPOSITORY = Path(__file__).parents[4]


@pytest.fixture
def bench(tmp_path):
    folder = tmp_path / "part"
    folder.mkdir()
    return Bench(folder, tmp_path / "log", {}, lambda done: None, time.sleep)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """`pasture lab micro`, once: its folder of results and what it printed."""
    results = tmp_path_factory.mktemp("lab") / "results"
    command = [sys.executable, "-m", "pasture", "lab", "micro", "--quick"]
    done = subprocess.run(
        [*command, "--results", str(results)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return results, done


def test_a_run_ends_with_table_document_and_page(lab):
    results, done = lab
    assert "micro: One collection in a child: reproduced" in done.stdout
    assert re.search(r"5 runs: about \d+ s", done.stderr)
    document = json.loads((results / "report.json").read_text())
    for row in document["experiments"]["micro"]["rows"]:
        assert row["what"] in done.stdout
        assert row["measured"] in done.stdout
    assert (results / "report.html").stat().st_size > 10_000


def test_a_second_run_takes_what_is_kept(lab):
    results, _ = lab
    before = json.loads((results / "report.json").read_text())
    command = [sys.executable, "-m", "pasture", "lab", "micro", "--quick"]
    done = subprocess.run(
        [*command, "--results", str(results)], capture_output=True, text=True, timeout=300
    )
    assert "5 runs, 5 of them kept from before: about nothing to run" in done.stderr
    assert json.loads((results / "report.json").read_text()) == before


def test_the_micro_test_writes_to_most_pages_only_with_the_built_in_collector(lab):
    results, _ = lab
    found = json.loads((results / "report.json").read_text())["experiments"]["micro"]["figures"]
    assert found["stock.distinct_strings"] == 640_000
    assert found["stock.private_growth_bytes"] > 30e6
    for variant in ("freeze", "out-of-line", "seal"):
        assert found[f"{variant}.private_growth_bytes"] < 5e6


def test_the_page_has_the_figures_and_the_plots_of_the_document(tmp_path, monkeypatch):
    """Of an experiment with lines, bars and gaps, whose figures are made up."""
    store, options = Store(tmp_path), Options(quick=True)
    parts = EXPERIMENTS["growth"].parts(options)
    for number, part in enumerate(parts[:3], start=1):
        line = curve([0, 300, 900], [1e6, 7e6 * number, 30e6 * number])
        figures = {
            "growth_bytes": 29e6 * number,
            "growth_a_request_bytes": 32e3 * number,
            "linearity": 0.9 + number / 100,
            "shared_start_bytes": 100e6,
            "shared_end_bytes": 50e6 + number * 1e6,
            "requests": 900.0,
        }
        store.keep("growth", part, True, Kept(Measured(figures, {"private_bytes": line}), 1.0))
    monkeypatch.setattr("pasture_lab.engine.runner.require_modules", _nothing_is_installed)
    found = run_lab([EXPERIMENTS["growth"]], options, store)
    document = as_document(found)["experiments"]["growth"]
    assert document["not_measured"].keys() == {"freeze", "seal"}

    page = html.unescape(render_html(found, datetime(2026, 1, 2)))
    assert "<script" not in page and "src=" not in page
    cells = re.findall(r'<td class="text measured">(.*?)</td>', page, re.DOTALL)
    expected = [row["measured"] or row["reason"] or "" for row in document["rows"]]
    assert cells == expected
    ratios = re.findall(r'<td class="ratio">(.*?)</td>', page)
    assert ratios == ["" if r["ratio"] is None else f"{r['ratio']:.3g}" for r in document["rows"]]
    verdicts = re.findall(r'<td class="text verdict">(.*?)</td>', page)
    assert verdicts == [row["verdict"] or "" for row in document["rows"]]

    plot = EXPERIMENTS["growth"].plots[0]
    drawn = plots.drawn(plot, found.results[0])
    assert [line.name for line in drawn.lines] == [part.name for part in parts[:3]]
    for line in drawn.lines:
        kept = document["curves"][f"{line.name}.private_bytes"]
        assert list(line.x) == kept["x"]
        assert line.y == [value / 1e6 for value in kept["y"]]
        assert f"{line.name}: {line.y[-1]:.4g} at the end" in page
    assert page.count("<path ") == 3


def _nothing_is_installed(modules):
    raise NotMeasurable("django not installed", hint="pip install 'pasture[lab]'")


def test_without_the_collector_a_worker_grows_by_its_garbage(bench):
    off = growth._measure(Variant("gc-off", gc="disable"), 90, bench).curves["private_bytes"]
    assert off.x[-1] == 90
    # 2,600 lists of at least 56 bytes a request.
    assert off.y[-1] - off.y[len(off.y) // 2] > 45 * 2600 * 56 * 0.8


def test_a_server_that_did_not_take_its_policy_is_no_measurement(bench, tmp_path):
    # Beside a thread that computes, and never waits, the heap is not sealed.
    thread = (
        'import threading\nthreading.Thread(target=exec, args=("while True: pass",), daemon=True)'
    )
    (tmp_path / "sitecustomize.py").write_text(f"{thread}.start()\n")
    small = {"LAB_SHELF": "10"}
    with serving(bench, Variant("seal", policy="seal").plan(1, small)) as server:
        assert len(server.workers()) == 1
    in_the_way = small | {"PYTHONPATH": f"{tmp_path}:{SITES}"}
    with (
        pytest.raises(ServerFailed, match="does not run under seal"),
        serving(bench, Variant("seal", policy="seal").plan(1, in_the_way)),
    ):
        pass


def test_workers_begin_with_what_their_master_has_under_a_policy_that_freezes_nothing(bench):
    """Each look at all objects before a fork once took the older workers' pages away."""
    plan = replace(large_objects.ours("side-table"), http=True)
    with serving(bench, plan) as server:
        sample = server.sample()
    assert len(sample.workers) == 4
    assert median(sample, lambda memory: memory.private_bytes) < 10e6
    assert median(sample, lambda memory: memory.shared_bytes) > 80e6


def test_a_stop_with_finalization_writes_and_one_without_does_not(bench):
    finalizes, leaves = (
        instagram_site.stop(Variant(gc, gc=gc), 40, bench).figures
        for gc in ("threshold-0", "threshold-0-leave")
    )
    assert finalizes["stop_minor_faults"] > 10 * leaves["stop_minor_faults"]
    assert finalizes["peak_ratio"] > 1.2 > leaves["peak_ratio"]


def test_a_group_ends_what_passes_its_limit_and_leaves_nothing(bench):
    try:
        with cgroup.memory_group() as group:
            group.limit(60_000_000)
            program = "x = bytearray(200_000_000); print('lived')"
            command = [*group.prefix, sys.executable, "-c", program]
            with Group(command, log=bench.log("greedy")) as greedy:
                while greedy.exit_code() is None:
                    time.sleep(0.02)
            assert greedy.exit_code() != 0
            assert group.kills() >= 1 or "lived" not in bench.log("greedy").read_text()
            assert group.peak_bytes() <= 60_000_000
    except NotMeasurable as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    assert not group.path.exists()


def test_another_interpreter_serves_the_test_application_behind_nginx(bench, monkeypatch):
    _need("nginx", monkeypatch)
    with (
        large_objects._other_interpreter(bench, sys.executable, ()) as server,
        nginx.in_front(bench, server.port, speaks_uwsgi=False) as port,
    ):
        assert len(server.workers()) == 4
        assert burst(port, 4) == 0


def test_httperf_reaches_uwsgi_through_nginx(bench, monkeypatch):
    _need("nginx", monkeypatch)
    _need("httperf", monkeypatch)
    plan = ServerPlan(module="large_objects_site", workers=2, http=False)
    with (
        serving(bench, plan) as server,
        nginx.in_front(bench, server.port, speaks_uwsgi=True) as port,
    ):
        assert get(port) == 200
        rate = httperf.send(bench, port, 5, timeout_s=300)
    assert (rate.connections, rate.answered) == (5, 5)
    assert rate.a_second > 0


def _need(name, monkeypatch):
    """Have a program unpacked into the cache, where the lab looks for it."""
    done = subprocess.run(
        [str(REPOSITORY / "tools" / "services"), name], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"{name} cannot be had: {done.stderr.strip()}")
    found = Path(done.stdout.strip()).parent
    monkeypatch.setenv("PATH", str(found), prepend=os.pathsep)
