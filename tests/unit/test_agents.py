"""`make agents`: what arrived is compared with what was asked; the rows make sense."""

import http.client
import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the benchmarks are not here"),
]


@pytest.fixture(autouse=True)
def with_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.agents.{name}")


def test_marks_that_are_lost_and_that_come_twice_are_told_by_their_kind() -> None:
    arrived = {("trace", 7, 0): 1, ("log", 7, 0): 2, ("trace", 7, 1): 1, ("trace", 9, 0): 1}
    agent = module("catalog").Agent("a", "", (), kinds=("trace", "log"))
    found = module("runs").delivery(agent, {7: [0, 1]}, arrived)
    assert (found.asked, found.once, found.lost, found.twice) == (4, 2, 1, 1)
    assert (found.wrong, found.by_worker) == (("log",), (3,))


def test_marks_that_come_by_the_clock_are_counted_for_each_worker() -> None:
    agent = module("catalog").Agent("a", "", (), kinds=("job",), by_clock=True)
    found = module("runs").delivery(agent, {7: [0], 8: [0]}, {("job", 7, n): 1 for n in range(3)})
    assert (found.asked, found.by_worker) == (0, (3, 0))


def test_a_mark_counts_once_for_each_message_that_holds_it() -> None:
    with module("sink").Sink() as sink:
        connection = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=10)
        for body in (b"mark-log-7-0- mark-log-7-0-", b"mark-log-7-0-"):
            connection.request("POST", "/v1/logs?of=mark-trace-7-1-", body)
            connection.getresponse().read()
        connection.close()
        assert sink.arrived() == {("log", 7, 0): 2, ("trace", 7, 1): 2}


def test_each_row_names_a_recipe_that_is_there_and_pins_its_first_package() -> None:
    recipes = {path.stem for path in (ROOT / "benchmarks/agents/recipes").glob("*.py")}
    for agent in module("catalog").load_agents().values():
        assert agent.recipe in recipes, agent.name
        assert "==" in agent.packages[0] and agent.kinds and agent.title, agent.name
