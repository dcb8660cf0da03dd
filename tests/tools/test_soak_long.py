"""`make soak-long`: a server is compared with the plain one next to it, not with a rule."""

from collections import Counter

from benchmarks.soak_long import BY_CHANCE, worse


def test_a_task_that_plain_would_not_lose_is_never_chance() -> None:
    assert worse(Counter(lost=1), Counter()) == ["lost: 1, plain 0"]
    assert worse(Counter(lost=2), Counter(lost=2)) == []


def test_ends_and_slow_reloads_that_plain_has_as_well_are_its_own() -> None:
    ends = {"the master has ended": 1 + BY_CHANCE}
    assert worse(Counter(ends), Counter({"the master has ended": 1})) == []
    assert worse(Counter(ends), Counter()) == [f"the master has ended: {1 + BY_CHANCE}, plain 0"]
