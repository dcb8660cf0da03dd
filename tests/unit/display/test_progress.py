"""The display of progress: bars on a terminal, lines elsewhere."""

from rich.console import Console

from pasture_tools.display import progress
from pasture_tools.display.progress import Event, Finished, Moved, Started


def shown(*events: Event, terminal: bool = False) -> str:
    console = Console(width=120, force_terminal=terminal)
    with console.capture() as capture, progress.for_console(console) as display:
        for event in events:
            display.show(event)
    return capture.get()


def test_without_a_terminal_each_step_is_a_line_and_counts_are_none() -> None:
    text = shown(
        Started("seal", 100, "run 1 of 2"),
        Moved(phase="starting the load"),
        Moved(50, "5.0 MB private a worker"),
        Moved(phase="stopping"),
        Finished("seal", "5.0 MB private a worker"),
    )
    assert text.splitlines() == [
        "seal: run 1 of 2",
        "seal: starting the load",
        "seal: stopping",
        "seal: 5.0 MB private a worker",
    ]


def test_on_a_terminal_counts_and_phases_are_shown() -> None:
    text = shown(Started("seal", 100), Moved(40, "7.0 MB private a worker"), terminal=True)
    assert "40/100" in text
    assert "7.0 MB private a worker" in text


def test_what_came_of_a_piece_of_work_stays_on_the_terminal_in_place_of_its_bar() -> None:
    events = (Started("seal", 100, "booting"), Moved(100), Finished("seal", "5.0 MB"))
    assert shown(*events, terminal=True).count("seal: 5.0 MB\n") == 1


def test_a_piece_inside_of_another_moves_alone_and_gives_way_to_it() -> None:
    events = (
        Started("2 runs", 30.0, "about 30 s"),
        Started("micro stock", 1.0),
        Moved(0.25, "1 of 2"),
        Finished("micro stock", "1.50 s"),
        Moved(15.0),
        Moved(phase="half"),
        Finished("2 runs"),
    )
    lines = ["2 runs: about 30 s", "micro stock: 1.50 s", "2 runs: half"]
    assert shown(*events).splitlines() == lines
    bars = shown(*events[:3], terminal=True)
    assert " 25%" in bars and "1 of 2" in bars and "  0%" in bars
    assert " 50%" in shown(*events[:5], terminal=True)


def test_what_was_done_before_is_reported_without_a_start() -> None:
    events = (
        Finished("micro stock", "kept"),
        Moved(1.0, "nothing is open"),
        Moved(phase="nor now"),
    )
    assert shown(*events) == "micro stock: kept\n"
    assert "micro stock: kept" in shown(*events, terminal=True)


def test_words_of_others_are_no_markup() -> None:
    events = (Started("[red]x", None, "[bold]y"), Finished("[red]x", "[/]z"))
    assert shown(*events).splitlines() == ["[red]x: [bold]y", "[red]x: [/]z"]
    assert "[red]x: [/]z" in shown(*events, terminal=True)
