"""The outcomes of a load, as its files hold them; and the cookies of a user."""

import json
from pathlib import Path

import pytest

from pasture_tools.trial.client.closed_loop import prepare
from pasture_tools.trial.client.cookies import Cookies
from pasture_tools.trial.client.record import Exchange, Record

URL = "https://127.0.0.1:80/shop/"


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(str(tmp_path / "progress"), lambda media_type, body: f"{media_type} {len(body)}")


def outcome(status: int = 200, content: bytes | None = b"a", **more: object) -> Exchange:
    return Exchange("GET", "/?q", 2.0, status, content, "text/html", **more)  # type: ignore[arg-type]


def test_bodies_are_counted_by_digest_and_by_structure(record: Record) -> None:
    for content in (b"a", b"b", b"a", b"ccc", None):
        record.add(outcome(content=content))

    found = record.as_dict()
    (answers,) = found["answers"].values()
    assert answers["statuses"] == {200: 5} and answers["error"] is None
    assert sorted(answers["bodies"].values()) == [1, 1, 2]
    assert answers["skeletons"] == {"text/html 1": 3, "text/html 3": 1}
    assert found["paths"] == ["GET /?q"] and found["latencies_ms"] == [2.0] * 5


def test_a_body_that_is_always_another_one_is_kept_a_few_times(record: Record) -> None:
    for number in range(200):
        record.add(outcome(content=b"%d" % number))

    (answers,) = record.as_dict()["answers"].values()
    assert len(answers["bodies"]) == 64 and sum(answers["skeletons"].values()) == 8
    assert answers["statuses"] == {200: 200}


def test_a_time_out_is_no_answer_and_no_status(record: Record, tmp_path: Path) -> None:
    record.add(outcome())
    record.add(outcome(0, None, error="TimeoutError()", timed_out=True))
    record.add(outcome(0, None, error="refused"))
    record.add(outcome(502))

    (answers,) = record.as_dict()["answers"].values()
    assert answers["statuses"] == {200: 1, 0: 1, 502: 1}
    assert (answers["timeouts"], answers["error"]) == (1, "refused")
    assert (tmp_path / "progress").read_text() == "000000000004 000000000002"


def test_the_result_is_written_once(record: Record, tmp_path: Path) -> None:
    record.add(outcome())
    record.write(str(tmp_path / "result"))

    assert json.loads((tmp_path / "result").read_text())["requests"] == 1
    with pytest.raises(FileExistsError):
        record.write(str(tmp_path / "result"))


def test_the_time_of_a_load_is_from_its_earliest_request_on(record: Record) -> None:
    record.add(Exchange("GET", "/", 1.0))
    record.add(Exchange("GET", "/", 5000.0))  # sent before the other, answered after it

    assert 5.0 <= record.as_dict()["seconds"] < 6.0


def test_a_cookie_comes_back_where_it_belongs_until_it_is_taken_away() -> None:
    cookies = Cookies()
    assert cookies.line_for(URL) == b""

    cookies.take(URL, ["session=a; Path=/; HttpOnly; Secure", "cart=b; Path=/shop"])
    assert set(cookies.line_for(URL)[8:-2].split(b"; ")) == {b"session=a", b"cart=b"}
    assert cookies.line_for("https://127.0.0.1:80/") == b"Cookie: session=a\r\n"
    assert cookies.line_for("https://elsewhere.example/shop/") == b""

    cookies.take(URL, ["session=; Path=/; Max-Age=0"])
    assert cookies.line_for(URL) == b"Cookie: cart=b\r\n"


def test_a_request_has_the_headers_that_were_named_and_only_what_else_it_needs() -> None:
    sent = prepare("GET", "/a?b", [("Host", "shop.example"), ("cookie", "c=d")], "127.0.0.1:80")
    assert sent.head == (
        b"GET /a?b HTTP/1.1\r\nAccept-Encoding: gzip, deflate\r\nHost: shop.example\r\n"
        b"cookie: c=d\r\n"
    )
    assert not sent.keeps_cookies and sent.url == "https://shop.example/a?b"

    post = prepare("POST", "/", [("Connection", "close")], "127.0.0.1:80")
    assert b"Host: 127.0.0.1:80\r\n" in post.head and b"Content-Length: 0\r\n" in post.head
    assert post.keeps_cookies and not post.keeps_alive
