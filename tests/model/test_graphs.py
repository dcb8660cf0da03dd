"""The out-of-line collector against the built-in one, each in a process of its own.

50 graphs, or as many as PASTURE_MODEL_GRAPHS says
(`make test-model`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.interpreter

PROGRAM = Path(__file__).with_name("graph_program.py")
GRAPHS = int(os.environ.get("PASTURE_MODEL_GRAPHS", "50"))

NODES = ("Plain", "Slotted", "Finalized", "Resurrected", "Freeing", "Collecting")
EDGES = (
    "attribute",
    "list",
    "tuple",
    "key",
    "value",
    "set",
    "closure",
    "generator",
    "method",
    "class",
    "weak",
)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """A graph: a dict of lists.

    `nodes` of [kind, generation that is collected after it was made, or -1]; `edges` of
    [source, target, way in which the source holds the target]; `watched`, nodes with a weak
    reference from outside that has a callback; `alive`, nodes held from outside.
    """
    generation = st.sampled_from((-1, -1, -1, -1, 0, 1))
    kind = st.sampled_from(NODES)
    nodes = draw(st.lists(st.tuples(kind, generation), min_size=1, max_size=14))
    number = st.integers(0, len(nodes) - 1)
    edge = st.tuples(number, number, st.sampled_from(EDGES))
    return {
        "nodes": nodes,
        "edges": draw(st.lists(edge, max_size=3 * len(nodes))),
        "watched": draw(st.lists(number, max_size=4)),
        "alive": draw(st.lists(number, max_size=2, unique=True)),
    }


class Collector:
    """A process that collects graphs one after the other."""

    def __init__(self, how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, graph: dict[str, Any]) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(graph) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            _, errors = self.process.communicate()
            pytest.fail(f"exit {self.process.returncode} on {json.dumps(graph)}\n{errors}")
        return json.loads(line)


def comparable(result: dict[str, Any], ordered: bool) -> list[Any]:
    """What must not depend on the order of the collector's lists.

    The built-in collector changes the order of what survives, ours does not: events come
    in the same order as long as no full collection went before.
    """
    first, second = result["collections"]
    events = first[3] if ordered else sorted(first[3], key=str)
    return [first[:3], events, first[4], sorted(second[3], key=str), second[4], result["missed"]]


@pytest.fixture(scope="module")
def collectors() -> Iterator[tuple[Collector, Collector, Collector]]:
    made = Collector("builtin"), Collector("outline"), Collector("installed")
    yield made
    for each in made:
        _, errors = each.process.communicate(timeout=300)
        assert each.process.returncode == 0, errors


@pytest.mark.timeout(max(600, GRAPHS // 5))
@settings(
    max_examples=GRAPHS,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(graph=graphs())
def test_a_graph_meets_the_same_end_as_under_the_builtin_collector(
    collectors: tuple[Collector, Collector, Collector], graph: dict[str, Any]
) -> None:
    results = [collector.run(graph) for collector in collectors]
    note("\n".join(map(str, results)))
    nested = any(kind == "Collecting" for kind, _ in graph["nodes"])
    expected, outline, _ = (comparable(result, True) for result in results)
    assert outline == expected
    expected, _, installed = (comparable(result, not nested) for result in results)
    assert installed == expected
