"""What of uWSGI is understood without a uWSGI: its options, and the tuples that it keeps."""

from typing import Any

import pytest

from pasture.errors import UsageError
from pasture.servers.uwsgi.hooks import is_arguments
from pasture.servers.uwsgi.master import option, refuse
from pasture.servers.uwsgi.worker import is_busy


class Uwsgi:
    """The module of uWSGI, as far as a worker asks it about itself."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def worker_id(self) -> int:
        return 2

    def workers(self) -> list[dict[str, Any]]:
        return [{"id": 1, "status": b"idle"}, {"id": 2, "status": self._status}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"module": b"site.wsgi"}, "site.wsgi"),
        ({b"module": "site.wsgi"}, "site.wsgi"),
        ({"module": [b"first", b"last"]}, "last"),
        ({"module": True}, "true"),
        ({"module": False}, None),
    ],
)
def test_an_option_is_read_as_text_in_whatever_form_uwsgi_has_it(
    options: dict[Any, Any], expected: str | None
) -> None:
    assert option(options, "module") == expected


@pytest.mark.parametrize("options", [{"lazy-apps": True}, {b"lazy-apps": b"true"}, {"lazy": True}])
def test_loading_in_each_worker_is_refused(options: dict[Any, Any]) -> None:
    with pytest.raises(UsageError, match="each worker loads the application for itself"):
        refuse(options, 0)


def test_being_imported_by_a_worker_is_refused_and_by_the_master_is_not() -> None:
    refuse({"master": True}, 0)
    with pytest.raises(UsageError):
        refuse({"master": True}, 1)


@pytest.mark.parametrize(
    ("status", "busy"), [(b"busy", True), ("busy", True), (b"idle", False), (b"cheap", False)]
)
def test_a_worker_knows_whether_it_is_serving(status: Any, busy: bool) -> None:
    assert is_busy(Uwsgi(status)) is busy


def test_other_tuples_are_not_taken_for_uwsgis() -> None:
    for candidate in ((None, len), (None, None), (len,), [None, len], (None, len, len)):
        assert not is_arguments(candidate)
