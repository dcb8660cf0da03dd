"""When what was collected for one run does for another, and where it is looked for."""

import os
import socket
from pathlib import Path

import pytest

from pytest_pasture import keep
from pytest_pasture.control import Hello

pytestmark = pytest.mark.once

KEPT = Hello({}, {"PATH": "/bin", "SHLVL": "1"}, {"the limits": {"RLIMIT_NOFILE": (1, 2)}})


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PATH": "/bin", "SHLVL": "2", "PYTEST_XDIST_AUTO_NUM_WORKERS": "3"}, None),
        ({"PATH": "/usr/bin", "SHLVL": "1"}, "the environment's PATH changed"),
        ({"SHLVL": "1"}, "the environment's PATH changed"),
        ({"PATH": "/bin", "DEBUG": ""}, "the environment's DEBUG changed"),
    ],
)
def test_variables_that_tests_may_see_count(environment: dict[str, str], said: str | None) -> None:
    assert keep.difference(KEPT, KEPT._replace(environment=environment)) == said


def test_what_a_process_inherits_counts(request: pytest.FixtureRequest) -> None:
    limits = {"the limits": {"RLIMIT_NOFILE": (1, 1)}}
    assert keep.difference(KEPT, KEPT._replace(conditions=limits)) == "the limits changed"
    own = keep.hello_of(request.config)
    assert keep.difference(own, keep.hello_of(request.config)) is None
    mask = os.umask(0o7)
    try:
        changed = keep.hello_of(request.config)
    finally:
        os.umask(mask)
    assert keep.difference(own, changed) == "the umask changed"


def test_options_that_have_no_text_of_their_own_make_no_new_place() -> None:
    assert keep._plain({"a": [object(), Path("/b"), 1]}) == {"a": ["object", Path("/b"), 1]}


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path, mode: int) -> None:
    place = keep.Place(tmp_path / "kept", "root", "root-name")
    place.listen().close()
    place.folder.chmod(mode)
    with pytest.raises(OSError, match="can access|may write"):
        place.listen()
    assert isinstance(place.greet(KEPT), str)


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "kept").symlink_to("elsewhere")
    with pytest.raises(OSError):
        keep.Place(tmp_path / "kept", "root", "root-name").listen()


def test_a_process_that_does_not_answer_is_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep, "_ANSWER_LIMIT_S", 0.01)
    place = keep.Place(tmp_path / "kept", "root", "root-name")
    assert place.greet(KEPT) is None
    with place.listen():
        assert place.greet(KEPT) is None
        with pytest.raises(OSError, match="kept already"):
            place.listen()
    assert place.greet(KEPT) is None  # the name is stale
    assert list(place.folder.iterdir()) == []


def test_each_end_asks_who_the_other_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert keep.is_own_user(one)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert not keep.is_own_user(one)
