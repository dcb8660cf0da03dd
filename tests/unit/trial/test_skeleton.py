"""Two answers of one page have one skeleton; a page and its error have two."""

import pytest

from pasture_tools.trial.client.skeleton import LIMIT_BYTES, skeleton

pytestmark = pytest.mark.once

PAGE = b"""<!doctype html><html><head><title>Shop</title>
<script nonce="%s">if (1 < 2) { document.write("<b>%s</b>") }</script></head>
<body class="page"><!-- <i>rendered at %s</i> --><form method=post>
<input type='hidden' name="csrf" value="%s" disabled><p>%s</p></form></body></html>"""


def html(body: bytes) -> str:
    return skeleton("text/html; charset=utf-8", body)


def as_json(body: bytes) -> str:
    return skeleton("application/json", body)


def test_values_of_a_page_do_not_count() -> None:
    first = PAGE % (b"abc", b"x", b"10:00", b"token-1", b"1 > 0 & 2")
    second = PAGE % (b"def", b"", b"11:00", b"<>", b"three")
    assert html(first) == html(second)
    assert html(first).startswith("text/html, 14 tags (")


@pytest.mark.parametrize(
    "changed",
    [
        PAGE.replace(b"<p>", b"<p id=1>"),
        PAGE.replace(b"<p>%s</p>", b"%s"),
        PAGE.replace(b"form", b"div"),
        b"<h1>Server Error (500)</h1>",
    ],
)
def test_tags_and_names_of_attributes_count(changed: bytes) -> None:
    assert html(changed) != html(PAGE)


def test_an_empty_body_differs_from_one_with_text_alone() -> None:
    assert html(b"") == "text/html, empty"
    assert html(b"nothing") != html(b"")
    assert skeleton("text/plain", b"a") == skeleton("text/plain", b"b") == "text/plain"
    assert skeleton("", b"") == "no content type, empty"


def test_json_has_keys_and_types() -> None:
    assert as_json(b'{"id": 1, "name": "a"}') == as_json(b'{"name": "b", "id": 2.5}')
    assert as_json(b'{"id": 1}') != as_json(b'{"error": "no"}')
    assert as_json(b'{"id": 1}') != as_json(b'{"id": "1"}')
    assert as_json(b"true") != as_json(b"null") != as_json(b"1")


def test_the_number_of_elements_and_ids_as_keys_do_not_count_in_json() -> None:
    assert as_json(b'[{"a": 1}, {"a": 2}]') == as_json(b'[{"a": 3}]')
    assert as_json(b"[1]") != as_json(b"[]")
    assert as_json(b'{"17": {}, "18": {}}') == as_json(b'{"3fa85f64-5717-4562": {}}')


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_json_that_cannot_be_parsed_is_said_to_be_so(body: bytes) -> None:
    assert as_json(body) == "application/json, which cannot be parsed"


def test_bodies_that_are_long_or_encoded_are_not_looked_into() -> None:
    assert html(b"<p>" * LIMIT_BYTES) == "text/html"
    assert skeleton("text/html", b"<p>", "gzip") == "text/html"
    assert skeleton("text/html", b"<p>", "identity") == html(b"<p>")


def test_markup_that_never_ends_is_read_in_time() -> None:
    """At the longest that is looked into: the square of it would take hours."""
    parts = (
        b"<!--",
        b'<a "',
        b"<script>",
        b"<p x='",
        b"<a",
        b"<a '\"'",
        b"</script ",
        b"<p =",
        b"<a>'",
    )
    for part in parts:
        assert html((b"x" + part * LIMIT_BYTES)[:LIMIT_BYTES]).startswith("text/html, ")


def test_a_mark_in_a_quote_does_not_end_a_tag() -> None:
    assert html(b"<a title='>' href=x>y</a>") == html(b'<a title="<b>" href=z></a>')
    assert html(b"<a title='>") == html(b"<!-- <b> ")
    assert html(b"<p \"><p '><p>") == html(b"<p> <")
    assert html(b"<script>x < '<b>'</SCRIPT ><b>") == html(b"<script></script><b>")
    assert html(b"<script><b>") == html(b"<script></script ><b><")
