"""Whether the log says that the requests of a profile seem to need a login."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pasture.profile.file import profile_of
from pasture.serving.profiled import login_advice
from pasture.serving.settings import read_environment
from pasture.warmup.warmup import warm_up

REQUESTS = ("GET /", "GET /basket/?page=2", "GET /orders/")


def advice(
    tmp_path: Path,
    statuses: Mapping[str, int],
    own: Sequence[str] = ("GET /help/",),
    headers: Sequence[str] = (),
) -> str | None:
    profile = tmp_path / "site.profile"
    profile.write_text(profile_of({"request": REQUESTS}).text)
    profile.chmod(0o600)
    found = read_environment({}, profile=str(profile), warm=list(own), warm_header=list(headers))

    def application(
        environ: dict[str, Any], start_response: Callable[..., object]
    ) -> Iterable[bytes]:
        start_response(f"{statuses.get(environ['PATH_INFO'], 200)} As Asked", [])
        return [b""]

    assert len(found.warm_up.requests) == len(own) + len(REQUESTS)
    served = warm_up(application, found.warm_up.requests, headers=found.warm_up.headers)
    return login_advice(found, served.answers)


@pytest.mark.parametrize("status", [302, 303, 307, 401, 403])
def test_pages_behind_a_login_are_reported_with_what_to_do(tmp_path: Path, status: int) -> None:
    found = advice(tmp_path, {"/basket/": status, "/orders/": status})
    assert found is not None and found.startswith("profile: 2 of its 3 requests")
    assert "--warm-header 'Cookie: ...'" in found


@pytest.mark.parametrize("statuses", [{}, {"/": 302}, {"/orders/": 404, "/basket/": 500}])
def test_an_application_without_a_login_is_not(tmp_path: Path, statuses: dict[str, int]) -> None:
    assert advice(tmp_path, statuses) is None


def test_requests_of_the_users_own_list_do_not_count(tmp_path: Path) -> None:
    own = [f"GET /{number}/" for number in range(9)]
    assert advice(tmp_path, dict.fromkeys([f"/{n}/" for n in range(9)], 302), own) is None


@pytest.mark.parametrize("header", ["Cookie: sessionid=1", "authorization: Basic eA=="])
def test_a_user_who_gave_a_login_gets_no_advice(tmp_path: Path, header: str) -> None:
    refused = dict.fromkeys(["/", "/basket/", "/orders/"], 403)
    assert advice(tmp_path, refused) is not None
    assert advice(tmp_path, refused, headers=[header]) is None
