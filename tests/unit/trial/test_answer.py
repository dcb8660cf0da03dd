"""Answers of HTTP as servers send them: where one ends, what it says, and what is none."""

import gzip
import zlib

import pytest

from pasture_tools.trial.client.answer import Answer, Malformed

OK = b"HTTP/1.1 200 OK\r\n"


def read(data: bytes, method: str = "GET", step: int = 1 << 20) -> tuple[Answer, bool]:
    """The answer after its bytes have arrived, some at a time; whether it is whole."""
    answer, is_whole = Answer(method), False
    for at in range(0, len(data), step):
        assert not is_whole, "it had ended before"
        is_whole = answer.feed(data[at : at + step])
    return answer, is_whole


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "body"),
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (OK + b"content-length:0\r\n\r\n", b""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n", b"hello"),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n\r\n0\r\n\r\n0\r\nA: b\r\n\r\n",
            b"\r\n0\r\n",
        ),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx", b"x"),
        (b"HTTP/1.1 200\nContent-Length: 2\n\nok", b"ok"),
    ],
)
def test_an_answer_ends_where_it_says_however_it_arrives(
    data: bytes, body: bytes, step: int
) -> None:
    answer, is_whole = read(data, step=step)

    assert is_whole and answer.keeps_alive
    assert answer.status in (200, 204) and answer.content == body


def test_the_answer_to_a_head_has_no_body_whatever_its_length() -> None:
    answer, is_whole = read(OK + b"Content-Length: 500\r\n\r\n", "HEAD")
    assert is_whole and answer.keeps_alive and answer.content == b""


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    answer, is_whole = read(OK + b"\r\nhello")
    assert not is_whole and not answer.keeps_alive
    answer.end()
    assert answer.content == b"hello"


@pytest.mark.parametrize(
    ("head", "keeps_alive"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 101 Switching Protocols\r\n", False),
    ],
)
def test_a_connection_is_kept_where_both_sides_keep_it(head: bytes, keeps_alive: bool) -> None:
    assert read(head + b"Content-Length: 0\r\n\r\n")[0].keeps_alive is keeps_alive


def test_what_follows_an_answer_belongs_to_none_and_the_connection_is_given_up() -> None:
    answer, is_whole = read(OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 500")
    assert is_whole and answer.content == b"ok" and not answer.keeps_alive


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        OK + b"Content-Length: 5, 6\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nsome\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
        OK + b"A: " + b"b" * 2**20,
    ],
)
def test_what_is_no_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 20",
        OK + b"Content-Length: 5\r\n\r\nhell",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
def test_an_answer_that_is_cut_off_is_an_error(data: bytes) -> None:
    answer, is_whole = read(data)
    assert not is_whole
    with pytest.raises(Malformed):
        answer.end()


def test_headers_are_read_as_leniently_as_a_browser_does() -> None:
    answer, _ = read(
        OK + b"Content-TYPE : text/html\r\nno colon\r\nVary: a\r\nvary: b\r\n"
        b"Set-Cookie: a=1; Expires=Thu, 01 Jan 2099 00:00:00 GMT\r\nSet-Cookie: b=2\r\n\r\n"
    )
    assert answer.headers == {"content-type": "text/html", "vary": "a, b"}
    assert [cookie[:3] for cookie in answer.set_cookies] == ["a=1", "b=2"]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")),
        ("Deflate", zlib.compress(b"hello", wbits=-15)),
        ("identity", b"hello"),
    ],
)
def test_a_body_is_decoded(encoding: str, body: bytes) -> None:
    head = f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert read(OK + head + body)[0].content == b"hello"


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", b"hello"), ("gzip", b"\x1f\x8b"), ("br", b"h")]
)
def test_a_body_that_cannot_be_decoded_is_an_error(encoding: str, body: bytes) -> None:
    head = f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with pytest.raises(ValueError, match=encoding):
        _ = read(OK + head + body)[0].content
