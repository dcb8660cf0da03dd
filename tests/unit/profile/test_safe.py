"""Which requests may be in a profile."""

import pytest

from pasture.profile.safe import without_secrets

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("GET http://example.org/", "GET http://example.org/"),
        ("HEAD http://example.org:8443/shop/", "HEAD http://example.org/shop/"),
        ("GET http://localhost:8000/", "GET /"),
        ("GET http://10.0.0.7:8000/", "GET /"),
        ("GET http://[::1]:8000/", "GET /"),
        ("GET http://web:8000/", "GET /"),
        ("GET http:///about/", "GET /about/"),
        ("GET http://a.b/farms/thistle-dairy/", "GET http://a.b/farms/thistle-dairy/"),
        ("GET http://a.b/products/12/change/", "GET http://a.b/products/12/change/"),
        (
            "GET http://a.b/api/v2/events/otter-farm-0/",
            "GET http://a.b/api/v2/events/otter-farm-0/",
        ),
        ("GET http://a.b/?page=2&is_listed__exact=1", "GET http://a.b/?page=2&is_listed__exact=1"),
        ("GET http://a.b/?q=alice+smith&page=2", "GET http://a.b/?q=&page=2"),
        ("GET http://a.b/?sort", "GET http://a.b/?sort"),
        ("GET http://a.b/?card=4111111111111111", "GET http://a.b/?card="),
        ("GET http://a.b/?next=/account/%3Ftoken%3Dabc", "GET http://a.b/?next="),
    ],
)
def test_a_request_is_kept_without_what_may_be_secret(line: str, kept: str) -> None:
    assert without_secrets(line) == kept


@pytest.mark.parametrize(
    "path",
    [
        "/reset/MQ/c8x2k1-9f3a7b62d1e04c55/",
        "/invite/7f3a9c1d22/",
        "/invite/aBcDeFgHiJkL/",
        "/invite/QWERTZUI/",
        "/users/alice@example.org/",
        "/users/alice%40example.org/",
        "/orders/20261123/",
        "/o/123e4567-e89b-12d3-a456-426614174000/",
        "/jwt/eyJhbGciOiJIUzI1NiIsInR5cCI6.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4",
        "/x;jsessionid=1A530637289A03B07199A44E8D531427",
        "/?eyJhbGciOiJIUzI1NiJ9",
        "/?a=1&4111111111111111",
        "/" + "a" * 70,
    ],
)
def test_a_request_whose_path_may_be_secret_is_dropped(path: str) -> None:
    assert without_secrets(f"GET http://example.org{path}") is None


@pytest.mark.parametrize(
    "line", ["", "POST http://a.b/", "GET /", "GET http://a.b", "GET ftp://a/"]
)
def test_what_is_no_request_of_a_server_is_dropped(line: str) -> None:
    assert without_secrets(line) is None
