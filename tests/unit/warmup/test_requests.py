"""The lines in which users write requests and headers."""

from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture.warmup.requests import (
    Request,
    Requests,
    parse_header,
    parse_lines,
    parse_request,
    read_requests,
)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("/", Request("GET", "/")),
        ("/shop/?page=2&q=a:b", Request("GET", "/shop/?page=2&q=a:b")),
        ("POST /form", Request("POST", "/form")),
        ("head  /form", Request("HEAD", "/form")),
        ("http://a.test", Request("GET", "/", "http", "a.test")),
        ("https://a.test:444/x?y=1", Request("GET", "/x?y=1", "https", "a.test:444")),
        ("PUT http://a.test/x", Request("PUT", "/x", "http", "a.test")),
    ],
)
def test_a_request_is_a_path_or_a_url_with_or_without_a_method(
    line: str, request_: Request
) -> None:
    assert parse_request(line) == request_


@pytest.mark.parametrize(
    "line", ["", "shop", "GET", "GET /a /b", "ftp://a.test/", "2 /a", "http:/x"]
)
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        parse_request(line)


def test_a_request_reads_as_it_was_written() -> None:
    for line in ("GET /a?b", "POST https://a.test/x"):
        assert str(parse_request(line)) == line


def test_a_header_is_a_name_and_a_value() -> None:
    assert parse_header("Cookie: a=b; c=d: e") == ("Cookie", "a=b; c=d: e")
    assert parse_header("X-Empty:") == ("X-Empty", "")


@pytest.mark.parametrize("line", ["Cookie", ": x", "A b: c", "Cookie:a=b"])
def test_what_is_no_header_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        parse_header(line)


def test_lines_may_be_mixed_with_comments_and_blanks() -> None:
    lines = ["# requests", "", "  /a  ", "Cookie: x=1", "POST http://h.test/b", "  # end"]
    assert parse_lines(lines) == Requests(
        (Request("GET", "/a"), Request("POST", "/b", "http", "h.test")), (("Cookie", "x=1"),)
    )


def test_headers_alone_are_no_requests() -> None:
    assert not parse_lines(["Cookie: x=1"])


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "warm").write_text("/a\nA: b\n")
    assert read_requests(tmp_path / "warm") == Requests((Request("GET", "/a"),), (("A", "b"),))


def test_a_missing_file_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_requests(tmp_path / "none")


def test_a_binary_file_is_too(tmp_path: Path) -> None:
    (tmp_path / "warm").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read"):
        read_requests(tmp_path / "warm")


@pytest.mark.parametrize(
    ("line", "wire"),
    [
        ("/ü€", "GET /%C3%BC%E2%82%AC"),
        ("/a?q=ä&b=%C3%A4", "GET /a?q=%C3%A4&b=%C3%A4"),
        ("/100%", "GET /100%25"),
        ("/%zz%2f", "GET /%25zz%2f"),
        ('/a"<>^`{|}\\', "GET /a%22%3C%3E%5E%60%7B%7C%7D%5C"),
        ("/a[0]#part", "GET /a%5B0%5D"),
        ("/byte\udcff", "GET /byte%FF"),
        ("http://bücher.example/ü", "GET http://xn--bcher-kva.example/%C3%BC"),
        ("http://[::1]:8000/", "GET http://[::1]:8000/"),
    ],
)
def test_a_request_is_kept_as_it_goes_over_the_wire(line: str, wire: str) -> None:
    assert str(parse_request(line)) == wire
    assert parse_request(wire) == parse_request(line)


@pytest.mark.parametrize(
    "line",
    [
        "/a\x00b",
        "/a\x1b[31m",
        "/a\ud800",
        "http://user:secret@a.test/",
        "http://a.test:99999/",
        "http://a..test/",
        "http://a%20b/",
        "http://[::1/",
        f"http://{'a' * 70}.test/",
    ],
)
def test_what_cannot_be_sent_as_a_request_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="not a request"):
        parse_request(line)


@pytest.mark.parametrize("value", ["ü", "€", "a\x1bb", "a\x00", "a\x7f", "\udcff", "a\x85b"])
def test_a_header_that_cannot_be_sent_is_refused_with_a_hint(value: str) -> None:
    with pytest.raises(UsageError, match="Cookie") as caught:
        parse_header(f"Cookie: {value}")
    assert "ASCII" in caught.value.hint


def test_a_file_of_requests_is_utf_8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "urls"
    for codec in ("utf-8", "utf-8-sig"):
        path.write_text("/ü\r\nCookie: a\n", encoding=codec)
        found = read_requests(path)
        assert [str(request) for request in found.requests] == ["GET /%C3%BC"]
        assert found.headers == (("Cookie", "a"),)
    path.write_text("/ü\n", encoding="latin-1")
    with pytest.raises(UsageError, match="UTF-8|utf-8"):
        read_requests(path)
