"""The policy table, and how a policy is found by its name."""

import pytest

from pasture.errors import UnknownPolicy
from pasture.sealing.policy import POLICIES, Policy, find_policy

pytestmark = pytest.mark.interpreter


def test_every_policy_is_listed_under_its_own_name() -> None:
    assert [policy.name for policy in POLICIES.values()] == list(POLICIES)


def test_an_unknown_name_gets_the_nearest_and_all_names() -> None:
    with pytest.raises(UnknownPolicy) as caught:
        find_policy("warm-frezee")
    assert caught.value.hint.startswith("did you mean warm-freeze?")
    assert all(name in caught.value.hint for name in POLICIES)


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(UnknownPolicy) as caught:
        find_policy("xyzzy")
    assert "did you mean" not in caught.value.hint


def test_a_step_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="melt"):
        Policy("own", heap=("collect", "melt"))


def test_only_steps_of_the_extension_need_it() -> None:
    assert not POLICIES["warm-freeze"].needs_native
    assert POLICIES["seal"].needs_native


def test_garbage_of_the_warm_up_is_collected_before_the_heap_is_kept() -> None:
    for policy in POLICIES.values():
        if policy.warms_up:
            assert policy.heap[0] == "collect"


def test_connections_are_closed_under_every_policy_as_all_of_them_preload() -> None:
    assert all(policy.prepare[-1] == "close-connections" for policy in POLICIES.values())
