"""The words for what went wrong in a probe, and where."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from pasture.probe import cause
from pasture.probe.cause import Place

HERE = Path(__file__).resolve()
APP = Place("/srv/app.py", 3, "page")
LIBRARY = Place("/venv/lib/python3/site-packages/redis/connection.py", 9, "Connection.send")
OURS = Place(cause.__file__, 1, "f")


def test_the_innermost_place_and_the_applications_are_shown() -> None:
    assert cause.where([OURS, APP, LIBRARY]) == (
        "Connection.send (redis/connection.py:9), called by page (/srv/app.py:3)"
    )
    assert cause.where([LIBRARY, APP]) == cause.where([APP, OURS]) == "page (/srv/app.py:3)"
    assert cause.where([LIBRARY]) == "Connection.send (redis/connection.py:9)"
    assert cause.where([OURS]) == cause.where([]) == "no code of the application"


def test_code_without_a_file_is_a_librarys() -> None:
    assert Place("<frozen importlib._bootstrap>", 1, "f").is_of_library
    assert Place("src/gevent/_hub.pyx", 1, "f").is_of_library
    assert Place(str(asyncio.__file__), 1, "f").is_of_library and not APP.is_of_library


def test_other_threads_count_where_they_run_the_applications_code() -> None:
    assert cause.where_all([LIBRARY], [[APP], [LIBRARY]]) == (
        "Connection.send (redis/connection.py:9); another thread in page (/srv/app.py:3)"
    )


class PostgresConnectionError(Exception):
    """As drivers call theirs."""


@pytest.mark.parametrize(
    ("error", "begin"),
    [
        (ValueError("a\n  b"), "ValueError: a b, in "),
        (KeyError(), "KeyError, in "),
        (BrokenPipeError(32, "gone"), "lost connection: BrokenPipeError: "),
        (PostgresConnectionError("gone"), "lost connection: PostgresConnectionError: gone"),
        (
            RuntimeError("got Future <x> attached to a different loop"),
            "bound to an event loop of the parent: RuntimeError: ",
        ),
        (RuntimeError("Event loop is closed"), "bound to an event loop of the parent: "),
    ],
)
def test_an_exception_is_named_with_its_place_and_what_it_means(
    error: Exception, begin: str
) -> None:
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

    assert cause.of_exception(Odd()).startswith("Odd: its text cannot be had, in ")


def test_a_suspended_coroutine_is_followed_to_where_it_waits() -> None:
    async def inner() -> None:
        await asyncio.sleep(3600)

    async def outer() -> None:
        await inner()

    async def look() -> tuple[Place, ...]:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        places = cause.of_coroutine(task.get_coro())
        task.cancel()
        return places

    names = [place.function.rpartition(".")[2] for place in asyncio.run(look())]
    assert names == ["outer", "inner", "sleep"]


def test_the_main_threads_stack_is_read_from_a_dump() -> None:
    dump = (
        "Thread 0x01 (most recent call first):\n"
        '  File "/srv/worker.py", line 1 in run\n'
        "\n"
        "Current thread 0x02 [main] (most recent call first):\n"
        '  File "/srv/app.py", line 3 in page\n'
        '  File "/srv/app.py", line ??? in <module>\n'
    )
    assert cause.of_dump(dump) == (Place("/srv/app.py", 0, "<module>"), APP)


PARTS = """
import os, signal, threading, time
from concurrent.futures import Future, ThreadPoolExecutor
from pasture.probe import cause

def look(number, frame):
    print(cause.waits_for_ever(frame), flush=True)
    os._exit(0)

def works():
    while True:
        pass

def other(target, *arguments):
    threading.Thread(target=target, args=arguments, daemon=True).start()

signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.3)
"""


@pytest.mark.parametrize(
    ("waits", "program"),
    [
        (True, "Future().result()"),
        (True, "ThreadPoolExecutor(1).submit(Future().result).result()"),
        (True, "ThreadPoolExecutor(1).submit(int).result(); Future().result()"),
        (True, "other(threading.Event().wait); threading.Event().wait()"),
        (False, "Future().result(60)"),
        (False, "other(time.sleep, 60); Future().result()"),
        (False, "other(works); Future().result()"),
        (False, "time.sleep(60)"),
        (False, "os.read(os.pipe()[0], 1)"),
        (False, "works()"),
    ],
)
def test_a_process_waits_for_ever_where_each_thread_waits_for_another(
    waits: bool, program: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{PARTS}{program}"],
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
        text=True,
    )
    assert done.stdout == f"{waits}\n"
