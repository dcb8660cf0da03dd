"""The host that requests of a warm-up name, by the address that a server listens at."""

from types import SimpleNamespace
from typing import Any

import pytest

from pasture.serving.warming import host_at
from pasture.warmup.requests import parse_lines


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1", "127.0.0.1:8000"),
        ("site.test", "site.test:8000"),
        ("::1", "[::1]:8000"),
        ("[::1]", "[::1]:8000"),
        ("fe80::1%eth0", "[fe80::1]:8000"),
        *((every, "localhost:8000") for every in (None, "", "0.0.0.0", "::", "[::]")),
    ],
)
def test_a_host_is_one_that_a_request_can_name(address: str | None, host: str) -> None:
    assert host_at(address, 8000) == host
    assert parse_lines([f"GET http://{host}/"])


@pytest.mark.parametrize(
    ("bind", "host"),
    [("[::1]:8000", "[::1]:8000"), ("0.0.0.0:80", "localhost:80"), ("unix:/run/a", "localhost")],
)
def test_gunicorns_bind_is_such_a_host(bind: str, host: str) -> None:
    config = pytest.importorskip("gunicorn.config").Config()
    config.set("bind", bind)
    from pasture.servers.gunicorn.arbiter import SealingArbiter

    arbiter: Any = SimpleNamespace(cfg=config)
    assert SealingArbiter._host(arbiter) == host
