"""What a warm-up leaves of its event loop: connections closed in it, and hazards."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from pasture.reasons import Reason
from pasture.warmup.warmup import WarmUpReport, warm_up

pytestmark = pytest.mark.once

Page = Callable[[], Awaitable[object]]


def serve(page: Page, **options: Any) -> WarmUpReport:
    """Warm up an application that has one page and no lifespan."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await page()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return warm_up(application, ["/"], **options)


class Client:
    """Belongs to the loop that it was made on, as an `aiohttp.ClientSession` does."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


class Holder:
    """An application's object that makes its client at the first use."""

    client: Any = None


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An application's module, with names under which a client can be kept."""
    made: Any = ModuleType("shop")
    made.client = None
    made.holder = Holder()
    monkeypatch.setitem(sys.modules, "shop", made)
    yield made
    made.__dict__.clear()


def test_an_engine_of_sqlalchemy_leaves_no_thread_and_works_on_another_loop(tmp_path: Any) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    made = pytest.importorskip("sqlalchemy.ext.asyncio")
    engine = made.create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.sqlite3")

    async def query() -> Any:
        async with engine.connect() as connection:
            return (await connection.execute(sqlalchemy.text("select 7"))).scalar()

    report = serve(query)
    assert report.problems == ()
    assert report.threads == ()
    assert engine.pool.checkedin() == 0
    assert asyncio.run(query()) == 7
    asyncio.run(engine.dispose())


async def wait_for_all(locks: dict[str, Any]) -> None:
    """Have a task wait for each, so that each is bound to the loop."""

    async def hold(name: str) -> None:
        async with locks[name]:
            await asyncio.sleep(0)

    async def wait() -> None:
        async with locks["condition"]:
            await locks["condition"].wait()

    waiting = [asyncio.create_task(one) for one in (locks["event"].wait(), locks["queue"].get())]
    waiting.append(asyncio.create_task(wait()))
    await asyncio.gather(*(hold(name) for name in ("lock", "semaphore") for _ in range(3)))
    locks["event"].set()
    locks["queue"].put_nowait(1)
    async with locks["condition"]:
        locks["condition"].notify()
    await asyncio.gather(*waiting)
    locks["event"].clear()


def test_locks_and_queues_that_requests_have_waited_for_work_on_the_loop_of_a_worker() -> None:
    locks = {
        "lock": asyncio.Lock(),
        "semaphore": asyncio.Semaphore(),
        "event": asyncio.Event(),
        "queue": asyncio.Queue(),
        "condition": asyncio.Condition(),
    }
    assert serve(lambda: wait_for_all(locks)).problems == ()
    asyncio.run(wait_for_all(locks))


def test_what_a_request_keeps_of_its_loop_is_a_hazard_and_stays_as_it_is(module: Any) -> None:
    async def page() -> None:
        module.client, module.holder.client = Client(), Client()
        module.harmless = object()

    hazards = serve(page).hazards
    assert type(module.client) is type(module.holder.client) is Client
    assert [one.kind for one in hazards] == [Reason.LOOP_OWNED] * 2
    assert any(one.what.startswith("shop.client, an object of ") for one in hazards)


def test_an_object_of_before_that_has_kept_the_loop_is_a_hazard_with_its_name(module: Any) -> None:
    class Lazy:
        pass

    client = Lazy()
    module.client = [[client]]

    async def page() -> None:
        bind: Any = client
        bind.inner = (asyncio.get_running_loop(),)

    [hazard] = serve(page).hazards
    assert hazard.kind is Reason.LOOP_OWNED
    assert "the warm-up's event loop" in str(hazard)


def test_a_task_that_a_request_leaves_running_is_ended_and_named() -> None:
    ended = []

    async def refresh() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def page() -> None:
        asyncio.create_task(refresh())  # noqa: RUF006
        await asyncio.sleep(0)

    [hazard] = serve(page).hazards
    assert hazard.kind is Reason.TASK
    assert "refresh() of tests" in hazard.what
    assert ended


def test_a_task_that_ends_by_itself_is_waited_for() -> None:
    written = []

    async def write() -> None:
        await asyncio.sleep(0.01)
        written.append(True)

    async def page() -> None:
        asyncio.create_task(write())  # noqa: RUF006

    assert serve(page).hazards == ()
    assert written


def test_a_connection_of_an_unknown_library_is_closed_in_its_loop(module: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        async def page() -> None:
            module.client = await asyncio.open_connection(*listening.getsockname())

        report = serve(page)
        accepted, _ = listening.accept()
    with accepted:
        accepted.settimeout(10)
        assert accepted.recv(1) == b""
    assert report.hazards


class Connection:
    """As those of redis-py: it connects again by itself."""

    is_connected = True
    closed_on_a_loop = False

    async def disconnect(self) -> None:
        self.closed_on_a_loop = asyncio.get_running_loop().is_running()
        self.is_connected = False


class Session:
    """As those of aiohttp: closed for good."""

    closed = False

    async def close(self) -> None:
        self.closed = True


def install(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: object) -> None:
    known = ModuleType(name)
    vars(known).update(attributes)
    monkeypatch.setitem(sys.modules, name, known)


def test_a_connection_that_connects_again_is_closed_and_no_hazard(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    install(monkeypatch, "redis.asyncio.connection", AbstractConnection=Connection)
    module.client = connection = Connection()

    async def page() -> None: ...

    report = serve(page)
    assert connection.closed_on_a_loop and not connection.is_connected
    assert report.problems == () and report.hazards == ()
    assert module.client is connection


def test_a_session_that_is_closed_for_good_is_a_hazard(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    install(monkeypatch, "aiohttp", ClientSession=Session)
    module.client = session = Session()

    async def page() -> None:
        module.holder.client = Session()

    first, second = serve(page).hazards
    assert session.closed and module.holder.client.closed
    assert "shop.client, an object of " in first.what + second.what


def test_what_no_request_has_opened_or_another_loop_owns_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    class Client(Session):
        _opened = False

    class Elsewhere(Session):
        _loop = object()

    install(monkeypatch, "pymongo", AsyncMongoClient=Client)
    install(monkeypatch, "aiohttp", ClientSession=Elsewhere)
    module.client, module.holder.client = Client(), Elsewhere()

    async def page() -> None: ...

    assert serve(page).hazards == ()
    assert not module.client.closed and not module.holder.client.closed


def test_a_pool_that_never_closes_does_not_keep_the_parent(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    class Hanging(Session):
        async def close(self) -> None:
            await asyncio.sleep(3600)

    install(monkeypatch, "aiohttp", ClientSession=Hanging)
    monkeypatch.setattr("pasture.fork_safety.event_loop.CLOSE_S", 0.01)
    module.client = Hanging()

    async def page() -> None: ...

    [hazard] = serve(page).hazards
    assert hazard.what.startswith("shop.client, ")


def test_the_lifespan_is_left_to_the_workers_and_failures_name_the_option() -> None:
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])
        raise KeyError("pool")

    report = warm_up(application, ["/"] * 5)
    assert seen == ["http"] * 3
    assert report.refused == "left out after 3 requests that failed, 2 not served"
    assert report.advice is not None and "`--lifespan warm-up`" in report.advice
    assert report.advice in report.problems
