"""How many workers a container holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from pasture import UsageError, sizing, workers
from pasture.proc import cgroup

pytestmark = pytest.mark.once
MIB = 1 << 20


def trial(path: Path, **figures: Any) -> Path:
    """A document of workers with 40 MiB each, and 200 MiB for the rest."""
    moment = {"private_bytes": 40 * MIB, "parent_bytes": 200 * MIB}
    seal = {"worst_moments": [moment], **figures}
    path.write_text(json.dumps({"policies": {"seal": seal}}))
    return path


def test_memory_decides_where_it_is_short(tmp_path: Path) -> None:
    document = trial(tmp_path / "try.json")
    assert workers(trial=document, limit="600MiB", cores=64, spare=0) == 10
    assert workers(trial=document, limit="600MiB", cores=64, spare=0.1) == 8
    assert workers(private="40MiB", parent="200MiB", limit=600 * MIB, cores=64, spare=0) == 10


def test_all_moments_of_the_trial_must_fit(tmp_path: Path) -> None:
    """Before a refork workers have much private memory; in it the molds take more besides them."""
    before, within = (100, 200), (40, 300)
    moments = [{"private_bytes": p * MIB, "parent_bytes": r * MIB} for p, r in (before, within)]
    document = trial(tmp_path / "try.json", worst_moments=moments)

    assert workers(trial=document, limit="600MiB", cores=64, spare=0) == 4  # (600 - 200) / 100
    assert workers(trial=document, limit="340MiB", cores=64, spare=0) == 1  # (340 - 300) / 40
    assert (
        workers(private="40MiB", parent="200MiB", peak=2.5, limit="600MiB", cores=64, spare=0) == 4
    )


def test_moments_that_another_one_exceeds_do_not_decide() -> None:
    moments = [sizing.Moment(*pair) for pair in ((1, 9), (5, 5), (4, 4), (5, 3), (3, 7))]

    assert [(m.private_bytes, m.parent_bytes) for m in sizing.worst(moments)] == [
        (5, 5), (3, 7), (1, 9),
    ]  # fmt: skip


def test_processors_decide_where_they_are_few() -> None:
    assert workers(private="1MiB", limit="1GiB", cores="1.5", per_core=2) == 3
    assert workers(cores=3, per_core=2) == 6  # without figures of a worker


def test_there_is_one_worker_at_least() -> None:
    found = sizing.size(
        private="1GiB",
        parent=0,
        peak=1,
        trial=None,
        policy="seal",
        limit="10MiB",
        cores=0.1,
        per_core=1,
        spare=0,
    )
    assert (found.workers, found.by_memory) == (1, 0)
    assert str(found) == "1 worker: 0 fit into 10 MB (--limit 10MiB), 1 for 0.1 processors"


def test_the_limits_are_those_of_the_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = cgroup.Usage(100 * MIB, 0, 0, 0, Path("/g"))
    monkeypatch.setattr(cgroup, "read_usage", lambda pid: usage)
    monkeypatch.setattr(cgroup, "read_processors", lambda: 0.5)
    assert workers(private="10MiB", per_core=100, spare=0) == 10
    assert workers(private="1MiB", per_core=2, spare=0) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"private": "many"},
        {"private": "0"},
        {"private": "1MiB", "limit": "-1"},
        {"cores": "none"},
        {"cores": 0},
        {"per_core": 0},
        {"spare": 1},
        {"private": "1MiB", "peak": 0.5},
        {"trial": "/nowhere/try.json"},
        {"trial": __file__},
    ],
)
def test_figures_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        workers(**given)


def test_a_policy_that_the_trial_lacks_is_named_with_those_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        workers(trial=trial(tmp_path / "try.json"), policy="freeze")
    assert raised.value.hint == "it has seal"
