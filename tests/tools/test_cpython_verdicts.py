"""The judgement over runs of CPython's own tests: what counts, and what is explained."""

from pathlib import Path

import click
import pytest
from expected import MODES, Change, Expected, load_changes, matches
from outcomes import PROCESS, Difference, ModuleRun, Outcome, read_outcomes
from selection import choose, quick_first
from store import Order, Store
from verdict import Pair, counts_of, doubtful, judge

NOTHING_EXPECTED = Expected([], "3.14", "sealed")


def run(
    finished: bool = True, exit_code: int = 0, too_long: bool = False, **outcomes: str
) -> ModuleRun:
    events = {"finished": ""} if finished else {}
    tests = {name: Outcome(outcome) for name, outcome in outcomes.items()}
    return ModuleRun("test_it", tests, finished, exit_code, 1.0, events, too_long)


PLAIN = run(a="passed", b="passed")
FAILED = run(a="passed", b="failed")
CRASHED = run(finished=False, exit_code=139, a="passed", b="crashed")


def line(test: str, outcome: str) -> str:
    return f'{{"test": "{test}", "outcome": "{outcome}", "detail": ""}}'


def test_a_failure_that_shows_twice_is_new() -> None:
    verdict = judge(Pair(PLAIN, FAILED), Pair(PLAIN, FAILED), NOTHING_EXPECTED)
    assert [each.test for each in verdict.new] == ["b"]


def test_a_failure_that_does_not_show_again_is_unsteady() -> None:
    verdict = judge(Pair(PLAIN, FAILED), Pair(PLAIN, PLAIN), NOTHING_EXPECTED)
    assert not verdict.new
    assert [each.test for each in verdict.unsteady] == ["b"]


def test_a_failure_that_the_second_plain_run_has_too_is_unsteady() -> None:
    verdict = judge(Pair(PLAIN, FAILED), Pair(FAILED, FAILED), NOTHING_EXPECTED)
    assert not verdict.new


def test_a_crash_counts_although_a_second_run_does_not_show_it() -> None:
    verdict = judge(Pair(PLAIN, CRASHED), Pair(PLAIN, PLAIN), NOTHING_EXPECTED)
    assert PROCESS in [each.test for each in verdict.crashes]
    assert counts_of(verdict).crashed == 1


def test_a_crash_that_a_plain_process_has_too_does_not_count() -> None:
    verdict = judge(Pair(PLAIN, CRASHED), Pair(CRASHED, CRASHED), NOTHING_EXPECTED)
    assert not verdict.new


def test_a_run_that_hangs_under_test_alone_is_new_but_no_crash() -> None:
    hung = run(finished=False, exit_code=1, too_long=True, a="passed", b="crashed")
    verdict = judge(Pair(PLAIN, hung), Pair(PLAIN, hung), NOTHING_EXPECTED)
    assert verdict.new
    assert not verdict.crashes


def test_a_crash_is_never_explained() -> None:
    change = Change("all is well", "", {"3.14": ["*"]}, MODES)
    expected = Expected([change], "3.14", "sealed")
    assert doubtful(Pair(PLAIN, CRASHED), expected)
    assert not doubtful(Pair(PLAIN, FAILED), expected)


def test_a_change_explains_its_modes_and_messages_alone() -> None:
    change = Change("counts", "", {"3.14": ["test.x.*"]}, ["sealed"], "getrefcount")
    difference = Difference("test_x", "test.x.T.test", "passed", Outcome("failed", "getrefcount"))
    assert change.explains(difference, "3.14", "sealed")
    assert not change.explains(difference, "3.14", "collector")
    assert not change.explains(difference, "3.13", "sealed")
    assert not Change("", "", change.tests, MODES, "dis").explains(difference, "3.14", "sealed")


def test_brackets_in_the_id_of_a_test_stand_for_themselves() -> None:
    assert matches("test.x.test_[a]*", "test.x.test_[a] (i=1)")
    assert not matches("test.x.test_[a]", "test.x.test_a")


def test_a_listed_test_that_differs_no_longer_is_outdated() -> None:
    expected = Expected([Change("", "", {"3.14": ["a", "c", "x.*"]}, MODES)], "3.14", "sealed")
    assert expected.outdated([], ["a", "b"]) == ["a"]


def test_every_change_in_the_list_has_a_reason_and_versions() -> None:
    for change in load_changes():
        assert change.name and change.reason.strip()
        assert set(change.tests) <= {"3.12", "3.13", "3.14", "3.15"}


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[[change]]\nname = "a"\nreason = "b"\nmodes = ["seald"]\ntests = {}\n')
    with pytest.raises(ValueError, match="seald"):
        load_changes(file)


def test_a_module_that_cannot_be_imported_or_takes_too_long_is_not_compared() -> None:
    skipped = run(finished=False)
    assert counts_of(judge(Pair(skipped, skipped), None, NOTHING_EXPECTED)).skipped == 1
    slow = run(finished=False, too_long=True, a="passed", b="crashed")
    counts = counts_of(judge(Pair(slow, slow), None, NOTHING_EXPECTED))
    assert (counts.too_long, counts.modules) == (1, 0)


def test_counts_add_up_to_the_tests_that_were_run() -> None:
    plain = run(a="passed", b="passed", c="failed", d="skipped")
    sealed = run(a="passed", b="failed", c="failed", d="skipped")
    counts = counts_of(judge(Pair(plain, sealed), Pair(plain, sealed), NOTHING_EXPECTED))
    assert (counts.tests, counts.same, counts.failed_in_both, counts.new) == (4, 2, 1, 1)


def test_a_test_whose_process_ended_within_it_has_crashed() -> None:
    outcomes, events = read_outcomes([line("a", "started")])
    assert outcomes["a"].outcome == "crashed"
    assert not events


def test_a_test_that_ended_with_nothing_but_skipped_subtests_has_passed() -> None:
    outcomes, _ = read_outcomes([line("a", "started"), line("a", "ended"), line("", "finished")])
    assert outcomes["a"].outcome == "passed"


def order(kind: str, words: tuple[str, ...] = (), limit_s: int = 60) -> Order:
    return Order("3.14", kind, "test_it", words, limit_s)


def test_a_kept_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    Store(tmp_path, "one").put(order("sealed"), FAILED)
    assert Store(tmp_path, "one").get(order("sealed")) == FAILED


def test_a_run_of_another_build_is_not_taken_but_a_plain_one_is(tmp_path: Path) -> None:
    for kind in ("sealed", "plain"):
        Store(tmp_path, "one").put(order(kind), PLAIN)
    assert Store(tmp_path, "two").get(order("sealed")) is None
    assert Store(tmp_path, "two", any_digest=True).get(order("sealed")) == PLAIN
    assert Store(tmp_path, "two").get(order("plain")) == PLAIN


def test_a_run_with_other_options_is_not_taken(tmp_path: Path) -> None:
    store = Store(tmp_path, "one")
    store.put(order("middle", ("--fork-after", "0.3")), PLAIN)
    assert store.get(order("middle", ("--fork-after", "0.4"))) is None


def test_a_run_that_was_ended_is_made_again_when_it_may_take_longer(tmp_path: Path) -> None:
    slow = run(finished=False, too_long=True, a="passed")
    store = Store(tmp_path, "one")
    store.put(order("plain", limit_s=60), slow)
    assert store.get(order("plain", limit_s=30)) == slow
    assert store.get(order("plain", limit_s=120)) is None
    store.put(order("plain", limit_s=60), PLAIN)
    assert store.get(order("plain", limit_s=120)) == PLAIN


def test_what_is_forgotten_is_run_again(tmp_path: Path) -> None:
    store = Store(tmp_path, "one")
    for kind in ("plain", "sealed", "middle"):
        store.put(order(kind), PLAIN)
    store.forget({"3.14": ["test_it"]}, ["sealed"])
    assert [kind for kind in ("plain", "sealed", "middle") if store.get(order(kind))] == ["middle"]


def test_modules_of_unknown_length_go_first_and_slow_ones_last() -> None:
    modules = ["test_multiprocessing_fork.test_manager", "c", "b", "a"]
    assert quick_first(modules, {"a": 9.0, "c": 1.0}) == ["b", "c", "a", modules[0]]


def test_a_package_is_chosen_with_all_its_modules() -> None:
    modules = ["test_io", "test_io.test_file", "test_ioctl"]
    assert choose(modules, ["test_io"]) == modules[:2]
    assert choose(modules, []) == modules


def test_a_module_that_does_not_exist_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="test_lst"):
        choose(["test_list"], ["test_lst"])
