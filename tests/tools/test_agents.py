"""`make agents`: what arrived is compared with what was asked; the rows and the page make sense."""

import http.client
import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not (ROOT / "matrix").is_dir(), reason="the matrix is not here"),
]


@pytest.fixture(autouse=True)
def with_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"matrix.agents.{name}")


def test_marks_that_are_lost_and_that_come_twice_are_reported_by_their_kind() -> None:
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
        connection = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=120)
        for body in (b"mark-log-7-0- mark-log-7-0-", b"mark-log-7-0-"):
            connection.request("POST", "/v1/logs?of=mark-trace-7-1-", body)
            connection.getresponse().read()
        connection.close()
        assert sink.arrived() == {("log", 7, 0): 2, ("trace", 7, 1): 2}


def test_each_row_names_a_recipe_that_is_there_and_pins_its_first_package() -> None:
    recipes = {path.stem for path in (ROOT / "matrix/agents/recipes").glob("*.py")}
    for agent in module("catalog").load_agents().values():
        assert agent.recipe in recipes, agent.name
        assert "==" in agent.packages[0] and agent.kinds and agent.title, agent.name


def test_the_page_is_what_the_kept_results_make() -> None:
    agents = module("catalog").load_agents()
    command, page = module("__main__"), module("page")
    alone = module("catalog").without(next(iter(agents.values())))
    rows = list(command.kept_rows(alone, [alone, *agents.values()], command.MINORS))
    text = page.PAGE.read_text(encoding="utf-8")
    assert rows and page.page(text, agents, rows) == text, "make agents ARGS=--page"


def test_a_result_is_kept_on_a_line_and_given_back_for_the_same_row_alone(tmp_path: Path) -> None:
    kept, runs, file = module("kept"), module("runs"), tmp_path / "results.jsonl"
    agent = module("catalog").Agent("a", "", (), kinds=("trace",))
    run = runs.Run("3.14.0", private_bytes=(1, 2), steady=runs.Delivery(2, 1, 1, wrong=("trace",)))
    kept.keep(agent, "uvicorn", "3.14", "seal", run, file)
    kept.keep(agent, "gunicorn", "3.14", "seal", run, file)
    kept.keep(agent, "uvicorn", "3.14", "seal", run, file)
    assert len(file.read_text().splitlines()) == 2
    assert kept.kept(agent, "uvicorn", "3.14", "seal", file) == run
    assert kept.kept(agent, "uvicorn", "3.13", "seal", file) is None
    started_otherwise = module("catalog").Agent("a", "", (), kinds=("trace",), wrapper=("x",))
    assert kept.kept(started_otherwise, "uvicorn", "3.14", "seal", file) is None
