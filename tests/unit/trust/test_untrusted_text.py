"""Text of another process is shown, never obeyed."""

import io
import json
from datetime import datetime

import pytest

from pasture.errors import UsageError
from pasture.trust.untrusted_text import complain, printable, printable_lines, to_json
from pasture_tools.display.terminal import Terminal

EVERY = "".join(
    map(chr, (*range(0x3000), *range(0xD7F0, 0xE010), 0xFEFF, 0xFFFE, 0x1F600, 0xE0041))
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 語 😀", "plain ü 語 😀"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\nb\rc\t", r"a\nb\rc\t"),
        ("\u202egpj.exe\u2066\u061c", r"\u202egpj.exe\u2066\u061c"),
        ("\u2028\u200b\xa0\xad", r"\u2028\u200b\xa0\xad"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_plain_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_nothing_that_is_shown_is_anything_but_printable() -> None:
    assert printable(EVERY, len(EVERY)).isprintable()
    assert printable_lines(EVERY).replace("\n", "").isprintable()
    json.loads(to_json(EVERY))


def test_a_long_text_is_cut() -> None:
    assert printable("x" * 5000, 10) == "xxxxxxxxxx..."


def test_lines_stay_lines() -> None:
    assert printable_lines("a\n    b\x1b\n\tc") == "a\n    b\\x1b\n    c"


def test_a_document_is_ascii_and_every_half_of_a_character_is_replaced() -> None:
    text = to_json({"a\udcff": ["ü", "😀", "\ud83d", "\x9b\x7f\u202e", 1.5, None]})

    assert text.isascii() and text.endswith("}\n")
    assert json.loads(text) == {"a\ufffd": ["ü", "😀", "\ufffd", "\x9b\x7f\u202e", 1.5, None]}
    assert "\x7f" not in text


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_no_control_character_but_its_own(is_terminal: bool) -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, force_terminal=is_terminal, width=200, color_system=None)

    terminal.print("[red]a[/red] \x1b]0;title\x9c :smile: \u202e")
    with terminal.status("x"):
        pass

    shown = out.getvalue()
    assert r"[red]a[/red] \x1b]0;title\x9c :smile: \u202e" in shown
    assert "\x1b]" not in shown


def test_a_server_that_refuses_to_start_shows_no_control_character(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = UsageError("no policy \x1b[2J\u202e\nnor this", hint="threads: \x1b]0;x\x07")
    assert complain(error) == UsageError.exit_code
    shown = capsys.readouterr().err
    assert shown.count("\n") == 3 and shown.replace("\n", "").isprintable()


def test_a_page_shows_what_it_is_given_as_text() -> None:
    pytest.importorskip("jinja2")
    import jinja2

    from pasture_tools.display import pages

    loader = jinja2.DictLoader(
        {"page": "{{ bad }}|{{ bad | upper }}|{{ number }}|{{ ours | safe }}"}
    )
    environment = pages.environment(loader)

    shown = environment.get_template("page").render(
        bad="<b>\u202e", number=5, ours="<i>x</i>", made_at=datetime.now()
    )

    assert shown == r"&lt;b&gt;\u202e|&lt;B&gt;\u202e|5|<i>x</i>"
