"""Which server is meant where the user names none."""

import pytest

from pasture.errors import UsageError
from pasture.proc import tree


def test_the_only_pre_fork_server_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: [42])
    assert tree.only_master() == 42


@pytest.mark.parametrize(("masters", "reported"), [([], "are none"), ([42, 77], "are 42, 77")])
def test_none_or_several_are_reported_and_none_is_chosen(
    monkeypatch: pytest.MonkeyPatch, masters: list[int], reported: str
) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: masters)
    with pytest.raises(UsageError, match=reported) as raised:
        tree.only_master()
    assert raised.value.hint == "pasture explain PID"
