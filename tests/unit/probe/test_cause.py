"""The words for where something went wrong in a probe."""

import asyncio
import threading
from pathlib import Path
from traceback import FrameSummary as Place

import pytest

from pasture.probe import cause

HERE = Path(__file__).resolve()
APP = Place("/srv/app.py", 3, "page")
LIBRARY = Place("/venv/lib/python3/site-packages/redis/connection.py", 9, "send")
OURS = Place(cause.__file__, 1, "f")


def test_the_innermost_place_and_the_applications_are_shown() -> None:
    assert cause.where([OURS, APP, LIBRARY]) == (
        "send (redis/connection.py:9), called by page (/srv/app.py:3)"
    )
    assert cause.where([LIBRARY, APP]) == cause.where([APP, OURS]) == "page (/srv/app.py:3)"
    assert cause.where([LIBRARY]) == "send (redis/connection.py:9)"
    assert cause.where([OURS]) == cause.where([]) == "no code of the application"


@pytest.mark.parametrize(
    "file", ["<frozen importlib._bootstrap>", "src/gevent/_hub.pyx", asyncio.__file__]
)
def test_code_without_a_file_and_pythons_own_are_not_the_applications(file: str) -> None:
    assert cause.where([APP, Place(file, 1, "f")]).endswith(", called by page (/srv/app.py:3)")


def test_other_threads_count_where_they_run_the_applications_code() -> None:
    started, goes_on = threading.Event(), threading.Event()

    def waits() -> None:
        started.set()
        goes_on.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    try:
        started.wait()
        words = cause.where_all([LIBRARY])
    finally:
        goes_on.set()
        thread.join()
    assert words.startswith("send (redis/connection.py:9); another thread in ")
    assert f"called by waits ({HERE}:" in words


@pytest.mark.parametrize(
    ("error", "begin"),
    [(ValueError("a\n  b"), "ValueError: a b, in "), (KeyError(), "KeyError, in ")],
)
def test_an_exception_is_named_with_its_place(error: Exception, begin: str) -> None:
    try:
        raise error
    except Exception as raised:
        words = cause.of_exception(raised)
    assert words.startswith(begin)
    assert f"({HERE}:" in words


def test_an_exception_without_a_text_that_can_be_had_is_named() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert cause.of_exception(Odd()).startswith("Odd: its text cannot be read, in ")


def test_a_suspended_coroutine_is_followed_to_where_it_waits() -> None:
    async def inner() -> None:
        await asyncio.sleep(3600)

    async def outer() -> None:
        await inner()

    async def look() -> cause.Places:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        places = cause.of_coroutine(task.get_coro())
        task.cancel()
        return places

    names = [place.name for place in asyncio.run(look())]
    assert names == ["outer", "inner", "sleep"]
