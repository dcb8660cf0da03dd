"""A trial and its baseline: what counts as growth, and what is not compared."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from click.testing import CliRunner

from pasture.errors import UsageError
from pasture.trust.untrusted_text import to_json
from pasture_tools.cli.main import cli
from pasture_tools.trial.baseline import (
    Baseline,
    Comparison,
    compare,
    read_baseline,
    require_same_trial,
)
from pasture_tools.trial.document import SCHEMA_FILE, as_document
from pasture_tools.trial.measurement import Run, TrialResult

MB = 1_000_000
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]
MakeTrial = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.once


@pytest.fixture
def trial(make_run: MakeRun, make_result: MakeResult) -> MakeTrial:
    """Makes the document of a trial from the private memory of its rounds."""

    def make(*private: int, policy: str = "seal", **run: Any) -> dict[str, Any]:
        runs = [make_run(policy, round=n, private=size, **run) for n, size in enumerate(private)]
        document: dict[str, Any] = json.loads(to_json(as_document(make_result(*runs))))
        return document

    return make


def compared(before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    return compare(Baseline(Path("try.json"), before, 0.1), now)


def grown(comparison: Comparison) -> set[str]:
    return {change.figure.key for change in comparison.grown}


def test_growth_beyond_the_limit_is_found_in_each_figure(trial: MakeTrial) -> None:
    now = trial(*[6 * MB] * 3, shared=90 * MB, boot_s=2.0)

    comparison = compared(trial(*[5 * MB] * 3), now)

    assert grown(comparison) == {"private_bytes_median", "total_pss_bytes", "boot_s"}
    assert "private a worker 6.0 MB, was 5.0 MB (+20 %), which is too much" in "\n".join(
        comparison.sentences()
    )


def test_growth_up_to_the_limit_is_allowed(trial: MakeTrial) -> None:
    comparison = compared(trial(*[50 * MB] * 3), trial(*[55 * MB] * 3))

    assert not comparison.grown


def test_a_change_within_the_spread_of_rounds_is_no_growth(trial: MakeTrial) -> None:
    comparison = compared(trial(4 * MB, 4 * MB, 7 * MB), trial(6 * MB, 8 * MB, 8 * MB))

    assert not comparison.grown
    assert "(+100 %, within the spread of the rounds)" in comparison.sentences()[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"processor": "a slow one"}, "the processor of the machine was a slow one"),
        ({"processors": 2}, "the processors of the machine was 2 and is 4"),
    ],
)
def test_boots_on_different_machines_are_not_compared(
    trial: MakeTrial, change: dict[str, Any], words: str
) -> None:
    before, now = trial(*[5 * MB] * 3), trial(*[9 * MB] * 3, boot_s=9.0)
    before["machine"].update(change)

    comparison = compared(before, now)

    assert grown(comparison) == {"private_bytes_median", "total_pss_bytes"}
    assert words in comparison.not_compared[0]


def test_boots_of_one_round_are_not_compared(trial: MakeTrial) -> None:
    comparison = compared(trial(5 * MB), trial(5 * MB, boot_s=9.0))

    assert not comparison.grown
    assert "--rounds 3" in comparison.not_compared[0]


def test_policies_of_one_trial_alone_are_named(trial: MakeTrial) -> None:
    before, now = trial(5 * MB), trial(5 * MB)
    before["policies"]["freeze"] = before["policies"]["seal"]
    now["policies"]["stock"] = now["policies"]["seal"]

    not_compared = compared(before, now).not_compared

    assert "freeze: this trial did not measure it" in not_compared
    assert "stock: the baseline did not measure it" in not_compared


def test_other_urls_are_refused(trial: MakeTrial) -> None:
    before, now = trial(5 * MB), trial(5 * MB, paths=("GET /other",))

    with pytest.raises(UsageError, match="GET /, GET /other"):
        compared(before, now)


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("load", "workers", 8, "--workers was 8 and is 4"),
        ("load", "app", "other:app", "APP was other:app"),
        ("load", "server_args", ["--threads", "4"], "the arguments after -- was"),
        ("interpreter", "version", "3.13.9", "Python was 3.13 and is 3.14"),
        ("interpreter", "implementation", "PyPy", "the interpreter was PyPy"),
        ("machine", "architecture", "aarch64", "the architecture was aarch64"),
        ("machine", "os_page_bytes", 16384, "the size of an OS page was 16384"),
    ],
)
def test_a_baseline_of_another_trial_is_refused_by_what_differs(
    trial: MakeTrial, make_result: MakeResult, part: str, key: str, value: object, words: str
) -> None:
    result, before = make_result(), trial(5 * MB)
    require_same_trial(before, result.plan, result.interpreter, result.machine)

    before[part][key] = value

    with pytest.raises(UsageError, match=words):
        require_same_trial(before, result.plan, result.interpreter, result.machine)


def test_a_baseline_without_a_policy_of_the_plan_is_refused(
    trial: MakeTrial, make_result: MakeResult
) -> None:
    result = make_result()

    with pytest.raises(UsageError, match="its policies are refork"):
        require_same_trial(
            trial(5 * MB, policy="refork"), result.plan, result.interpreter, result.machine
        )


def test_a_later_patch_release_of_python_is_compared(
    trial: MakeTrial, make_result: MakeResult
) -> None:
    result = make_result()
    later = {**result.interpreter, "version": "3.14.9"}

    require_same_trial(trial(5 * MB), result.plan, later, result.machine)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"schema": 1, "policies": 3}',
        '{"schema": 1, "policies": {"seal": {}}}',
        '{"schema": 2, "policies": {"seal": 1}}',
        '{"policies": {"seal": "x"}}',
    ],
)
def test_a_file_that_is_no_document_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "try.json"
    file.write_text(text)

    with pytest.raises(UsageError):
        read_baseline(file, "10%")


@pytest.mark.parametrize("key", ["load", "interpreter"])
def test_a_document_that_lacks_a_part_is_refused(
    trial: MakeTrial, tmp_path: Path, key: str
) -> None:
    document = trial(5 * MB)
    del document[key]
    file = tmp_path / "try.json"
    file.write_text(json.dumps(document))

    with pytest.raises(UsageError, match=f"is not a complete trial.*{key}"):
        read_baseline(file, "10%")


@pytest.mark.parametrize("text", ["ten", "-1%", "nan", "inf%", ""])
def test_a_share_that_is_none_is_refused(trial: MakeTrial, tmp_path: Path, text: str) -> None:
    file = tmp_path / "try.json"
    file.write_text(json.dumps(trial(5 * MB)))

    assert read_baseline(file, "2.5%").max_growth == 0.025
    with pytest.raises(UsageError, match="percentage"):
        read_baseline(file, text)


def test_the_comparison_follows_the_schema(trial: MakeTrial) -> None:
    now = trial(9 * MB)
    now["baseline"] = compared(trial(5 * MB), now).as_document()

    fastjsonschema.validate(json.loads(SCHEMA_FILE.read_text()), now)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-growth", "5%"], "needs something to compare with"),
        (["--baseline", "try.json", "--json", "./try.json"], "would overwrite the baseline"),
        (["--baseline", "absent.json"], "cannot read"),
    ],
)
def test_options_that_cannot_go_together_are_refused(options: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, ["try", "site:application", *options])

    assert isinstance(done.exception, UsageError) and words in done.exception.message
