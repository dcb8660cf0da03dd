"""Whether a refork saved what it was asked to save."""

from __future__ import annotations

import pytest

from pasture.refork.schedule import Payoff


@pytest.mark.parametrize(("after", "pays"), [(50_000_000, True), (99_500_000, False)])
def test_a_round_pays_if_it_saves_the_fraction_that_was_asked_for(after: int, pays: bool) -> None:
    verdict = Payoff(3, 100_000_000, 500.4, 0.01).verdict(after)
    assert verdict is not None and verdict.pays is pays
    assert f"100.0 MB before, {after / 1e6:.1f} MB after, at 500 requests" in str(verdict)


def test_a_round_that_was_not_measured_has_no_verdict() -> None:
    assert Payoff(1, None, 10, 0.01).verdict(5) is None
