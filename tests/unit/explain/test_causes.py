"""The list of causes."""

from pasture_tools.explain.causes import Cause


def test_every_cause_has_a_name_and_a_meaning_of_its_own() -> None:
    assert len({cause.label for cause in Cause}) == len(Cause)
    assert all(cause.meaning for cause in Cause)
