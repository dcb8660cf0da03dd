"""What of the answered requests is kept for a profile."""

from pasture.refork.served import MAX_LINES, Served, host_of, words_of_environ
from pasture.warmup.requests import parse_lines


def noted(*answers: tuple[str, str, int]) -> list[str]:
    served = Served()
    for method, path, status in answers:
        served.note(method, path, "shop.example:8000", status)
    return served.lines()


def test_what_was_answered_more_than_once_is_kept_the_most_frequent_first() -> None:
    lines = noted(*[("GET", "/a?page=2", 200)] * 2, *[("HEAD", "/", 301)] * 3, ("GET", "/c", 200))
    assert lines == ["HEAD http://shop.example:8000/", "GET http://shop.example:8000/a?page=2"]


def test_unsafe_methods_errors_and_secrets_that_come_once_are_not() -> None:
    twice = [("POST", "/buy", 200), ("GET", "/missing", 404), ("GET", "/broken", 500)] * 2
    assert noted(*twice, ("GET", "/reset/t0ken", 200)) == []


def test_what_a_client_sends_cannot_become_another_line() -> None:
    paths = ("/a\nX-Admin: yes", "/a b", "/\xe9", "http://other/", "*", "/" + "x" * 300, "")
    assert noted(*[("GET", path, 200) for path in paths] * 2) == []
    served = Served()
    for host in ("a b", "a\nb", "", "a/b", "user@host"):
        served.note("GET", "/", host, 200)
        served.note("GET", "/", host, 200)
    assert served.lines() == []


def test_memory_and_the_message_are_bounded() -> None:
    served = Served()
    for number in range(5000):
        for _ in range(2):
            served.note("GET", f"/{number}/{'x' * 170}"[:170], "localhost", 200)
    lines = served.lines()
    assert len(lines) == MAX_LINES and sum(map(len, lines)) < 12_000
    assert len(served._counts) == 500


def test_every_line_can_be_read_as_a_request_of_a_warm_up() -> None:
    lines = noted(*[("GET", "/a%20b?x=%zz&y=[1]", 200), ("GET", "/~x/;v=1", 200)] * 2)
    assert [str(r) for r in parse_lines(lines).requests] == [
        "GET http://shop.example:8000/a%20b?x=%25zz&y=%5B1%5D",
        "GET http://shop.example:8000/~x/;v=1",
    ]


def test_the_host_is_found_however_it_is_written() -> None:
    assert host_of([("ACCEPT", "*/*"), ("Host", "a")]) == "a"
    assert host_of([]) == ""


def test_a_request_by_its_environ_has_the_path_as_it_came_or_encoded_anew() -> None:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/caf\xc3\xa9", "QUERY_STRING": "page=2"}
    assert words_of_environ(environ) == ("GET", "/caf%C3%A9?page=2", "")
    assert words_of_environ({**environ, "REQUEST_URI": "/x"})[1] == "/x"
    assert words_of_environ({"PATH_INFO": "/\u20ac"})[1] == "/%3F"
