"""What a request of the warm-up may do to the process that serves it: nothing."""

import asyncio
import gc
import locale
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pasture.warmup import interrupts
from pasture.warmup.warmup import warm_up

FOREVER_S = 60.0
"""A test that waits for so long has failed."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "AGAIN_S", 0.05)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Handlers of signals are afterwards as they were."""
    kept = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    for number, handler in kept.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def serving(page: Callable[[], object]) -> Any:
    """A WSGI application with that page at `/bad`."""

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/bad":
            page()
        start("200 OK", [])
        return []

    return application


def serving_asgi(page: Callable[[], object]) -> Any:
    """An ASGI application without a lifespan, with that page at `/bad`."""

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        if scope["path"] == "/bad":
            waiting = page()
            if asyncio.iscoroutine(waiting):
                await waiting
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return application


both = pytest.mark.parametrize("make", [serving, serving_asgi])


def sleep() -> None:
    time.sleep(FOREVER_S)


def read() -> None:
    here, _there = socket.socketpair()
    here.settimeout(FOREVER_S)
    here.recv(1)


def lock() -> None:
    held = threading.Lock()
    held.acquire()
    held.acquire(timeout=FOREVER_S)


def loop() -> None:
    end = time.monotonic() + FOREVER_S
    while time.monotonic() < end:
        pass


def swallow() -> None:
    for _ in range(3):
        try:
            time.sleep(FOREVER_S)
        except BaseException:
            pass


def swallow_and_answer() -> None:
    try:
        time.sleep(FOREVER_S)
    except BaseException:
        pass


def clean_up_for_ever() -> None:
    try:
        time.sleep(FOREVER_S)
    finally:
        time.sleep(FOREVER_S)


@pytest.mark.interpreter
@both
@pytest.mark.parametrize(
    "page", [sleep, read, lock, loop, swallow, swallow_and_answer, clean_up_for_ever]
)
def test_a_request_that_hangs_is_stopped_and_the_next_one_is_served(
    make: Any, page: Callable[[], None]
) -> None:
    report = warm_up(make(page), ["/bad", "/good"], timeout_s=0.2)
    assert [answer.status for answer in report.answers] == [None, 200]
    assert "GET /bad: no answer in 0.2 s, stopped in" in report.problems[0]


def test_the_report_says_where_a_request_was_stopped() -> None:
    report = warm_up(serving(sleep), ["/bad"], timeout_s=0.2)
    assert "stopped in sleep, " in report.problems[0]
    assert "test_guard.py:" in report.problems[0]


@pytest.mark.interpreter
def test_a_coroutine_that_waits_for_ever_is_stopped_and_cancelled() -> None:
    cancelled = []

    async def wait() -> None:
        try:
            await asyncio.sleep(FOREVER_S)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    report = warm_up(serving_asgi(wait), ["/bad", "/good"], timeout_s=0.2)
    assert [answer.status for answer in report.answers] == [None, 200]
    assert cancelled == [True]


def test_a_lifespan_that_hangs_is_stopped_and_nothing_is_served() -> None:
    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await asyncio.sleep(FOREVER_S)

    report = warm_up(application, ["/"], timeout_s=0.2, lifespan=True)
    assert report.answers == ()
    assert "lifespan: startup: no answer in 0.2 s" in report.problems[0]


def test_what_is_left_over_when_the_time_is_over_is_not_served() -> None:
    report = warm_up(
        serving(lambda: time.sleep(0.2)), ["/bad"] * 50, timeout_s=0, total_timeout_s=0.5
    )
    assert 0 < len(report.answers) < 10
    assert report.problems[0].startswith("the time is over, ")


@both
def test_names_are_reported_before_the_requests_are_served(make: Any) -> None:
    events: list[str] = []
    warm_up(make(lambda: events.append("served")), ["/bad"], on_start=events.append)
    assert events.index("GET /bad") < events.index("served")


@both
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_ends_the_warm_up_and_its_own_handler_is_called(
    handlers: None, make: Any, number: int
) -> None:
    called: list[int] = []
    signal.signal(number, lambda number, frame: called.append(number))

    def page() -> None:
        os.kill(os.getpid(), number)
        time.sleep(FOREVER_S)

    served: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        warm_up(make(page), ["/bad", "/good"], on_start=served.append)
    assert called == [number]
    assert "GET /good" not in served


@pytest.mark.interpreter
def test_a_second_signal_ends_a_process_whose_request_cannot_be_stopped() -> None:
    program = """
import itertools, signal
signal.signal(signal.SIGTERM, lambda *_: None)
from pasture.warmup.warmup import warm_up

def application(environ, start):
    print("here", flush=True)
    sum(itertools.repeat(1, 10 ** 12))  # one call of C code, which takes hours

warm_up(application, ["/"])
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert process.poll() is None, "it is C code, and the first signal is Python's"
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(300) == -signal.SIGTERM
        finally:
            process.kill()


def leave_handler() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def leave_alarm() -> None:
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("alarm"))
    signal.alarm(1)


CHANGES: dict[str, Callable[[], object]] = {
    "the handler of SIGTERM": leave_handler,
    "the handler of SIGUSR1": lambda: signal.signal(signal.SIGUSR1, lambda *_: None),
    "the handler of SIGALRM": leave_alarm,
    "the variable 'HERD_NEW'": lambda: os.environ.update(HERD_NEW="1"),
    "the variable 'PATH'": lambda: os.environ.pop("PATH"),
    "the working directory": lambda: os.chdir("/"),
    "the umask": lambda: os.umask(0o123),
    "the locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
    "the mask of signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    "the wake-up descriptor of signals": lambda: signal.set_wakeup_fd(
        os.open("/dev/null", os.O_WRONLY | os.O_NONBLOCK)
    ),
    "the virtual timer": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 50, 50),
    "the threads' switch interval": lambda: sys.setswitchinterval(0.5),
    "automatic collection": gc.disable,
    "the collector's thresholds": lambda: gc.set_threshold(1, 2, 3),
}


def state() -> object:
    umask = os.umask(0o77)
    os.umask(umask)
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return (
        [signal.getsignal(number) for number in signal.valid_signals()],
        *(dict(os.environ), Path.cwd(), umask, locale.setlocale(locale.LC_ALL), wakeup),
        *(signal.pthread_sigmask(signal.SIG_BLOCK, ()), sys.getswitchinterval()),
        *(gc.isenabled(), gc.get_threshold(), signal.getitimer(signal.ITIMER_VIRTUAL)),
    )


@pytest.mark.parametrize(
    ("make", "what"),
    [*((serving, what) for what in CHANGES), (serving_asgi, "the handler of SIGTERM")],
)
def test_what_a_request_changes_of_the_process_is_put_back_and_reported(
    make: Any, what: str
) -> None:
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    before = state()
    report = warm_up(make(CHANGES[what]), ["/bad"])
    assert state() == before
    assert report.problems == (f"GET /bad changed {what}: put back",)


@both
def test_variables_that_modules_set_while_they_are_loaded_stay(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that had to load it, in a request, would have them."""
    below = "import os\nos.environ['HERD_BELOW'] = 'a'\n"
    above = "import os, herd_below\nos.environ['HERD_OWN'] = 'b'\ndel os.environ['HERD_OLD']\n"
    for name, text in (("herd_below", below), ("herd_above", above)):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HERD_OLD", "c")
    monkeypatch.delenv("HERD_BELOW", raising=False)
    monkeypatch.delenv("HERD_OWN", raising=False)

    def load_and_change() -> None:
        import herd_above  # type: ignore[import-not-found]

        assert herd_above.__name__ == "herd_above"
        os.environ.update(HERD_OWN="d", HERD_OF_REQUEST="e")

    try:
        report = warm_up(make(load_and_change), ["/bad"])
        found = {name: value for name, value in os.environ.items() if name.startswith("HERD_")}
        assert found == {"HERD_BELOW": "a", "HERD_OWN": "b"}
        changed = "the variable 'HERD_OF_REQUEST', the variable 'HERD_OWN'"
        assert report.problems == (f"GET /bad changed {changed}: put back",)
    finally:
        sys.modules.pop("herd_above", None)
        sys.modules.pop("herd_below", None)


def test_a_lifespan_that_takes_signals_for_its_loop_gives_them_back() -> None:
    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    before = state()
    report = warm_up(application, [], lifespan=True)
    assert state() == before
    assert "lifespan startup changed the handler of SIGTERM" in report.problems[0]


def test_an_alarm_of_the_caller_is_still_set_afterwards() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        warm_up(serving(lambda: None), ["/bad"])
        assert 400 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


class Foreign(BaseException):
    """Like the time-out of gevent."""


@both
@pytest.mark.parametrize(
    "raised", [asyncio.CancelledError, GeneratorExit, SystemExit, Foreign], ids=lambda r: r.__name__
)
def test_no_exception_of_a_request_ends_the_process(make: Any, raised: type[BaseException]) -> None:
    def page() -> None:
        raise raised("broken")

    report = warm_up(make(page), ["/bad", "/good"])
    assert [answer.status for answer in report.answers] == [None, 200]
    assert report.problems[0].startswith(f"GET /bad: {raised.__name__}")


@pytest.mark.parametrize("moment", ["startup", "shutdown"])
@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, Foreign])
def test_no_exception_of_a_lifespan_ends_the_process(
    moment: str, raised: type[BaseException]
) -> None:
    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await serving_asgi(lambda: None)(scope, receive, send)
            return
        for what in ("startup", "shutdown"):
            await receive()
            if what == moment:
                raise raised("broken")
            await send({"type": f"lifespan.{what}.complete"})

    warm_up(application, ["/"], lifespan=True)


def test_an_exception_without_a_text_does_not_end_the_process() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def page() -> None:
        raise Silent

    assert "GET /bad: Silent" in warm_up(serving(page), ["/bad"]).problems[0]


def test_a_process_that_a_request_forks_does_not_come_back() -> None:
    program = """
import os
from pasture.warmup.warmup import warm_up

def application(environ, start):
    if os.fork() == 0 and environ["PATH_INFO"] == "/raises":
        raise ValueError("in the copy")
    start("200 OK", [])
    return []

warm_up(application, ["/", "/raises"])
print("after the warm-up", flush=True)
while True:
    try:
        print("status", os.wait()[1], flush=True)
    except ChildProcessError:
        break
"""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300
    )
    assert found.stdout == "after the warm-up\nstatus 0\nstatus 0\n"
    assert found.stderr.count("returned from it and ends here") == 2


def test_outside_of_the_main_thread_there_is_no_limit_and_the_report_says_so() -> None:
    reports = []
    thread = threading.Thread(
        target=lambda: reports.append(warm_up(serving(lambda: os.chdir("/")), ["/bad"]))
    )
    before = Path.cwd()
    thread.start()
    thread.join()
    assert Path.cwd() == before
    assert reports[0].answers[0].status == 200
    assert reports[0].problems[0] == "no time limit: this is not the main thread"
