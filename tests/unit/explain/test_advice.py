"""What is advised: what the figures support, and nothing else."""

from dataclasses import replace

import pytest

pytest.importorskip("numpy")

from pasture.scoreboard.growth import Growth
from pasture_tools.explain.advice import advice
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explanation import Grown
from pasture_tools.explain.fields import Label
from pasture_tools.explain.new_memory import FREE
from pasture_tools.explain.writers import Recording, Writer
from tests.unit.explain.explanations import explanation, share

pytestmark = pytest.mark.interpreter


def test_nothing_is_advised_where_there_is_nothing_to_gain() -> None:
    assert advice(explanation({})) == ()
    assert advice(explanation({Cause.REFERENCE_COUNT: 0.1, Cause.STACK: 50})) == ()


def test_remedies_are_named_with_what_they_save_most_bytes_first() -> None:
    first, second = advice(explanation({Cause.GC_HEADER: 5, Cause.REFERENCE_COUNT: 12}))
    assert first.startswith("12.0 MB by reference counts")
    assert second.startswith("5.0 MB by GC headers")


def test_causes_with_one_remedy_are_added_up() -> None:
    [sentence] = advice(explanation({Cause.HOLE: 3, Cause.POOL_HEADER: 2, Cause.FREE_LIST: 1}))
    assert sentence.startswith("6.0 MB in holes")


@pytest.mark.parametrize(
    ("policy", "remedies"), [(None, 2), ("unheard-of", 2), ("freeze", 1), ("seal", 0)]
)
def test_what_the_policy_did_already_is_not_advised(policy: str | None, remedies: int) -> None:
    causes = {Cause.GC_HEADER: 5.0, Cause.REFERENCE_COUNT: 12.0}
    assert len(advice(explanation(causes, policy=policy))) == remedies


def test_a_warm_up_is_advised_under_every_policy() -> None:
    [sentence] = advice(explanation({Cause.DICT_KEYS: 4}, policy="seal"))
    assert "requests in the warm-up, each several times, fill" in sentence


def test_no_warm_up_is_advised_for_versions_of_types_that_the_seal_has_set() -> None:
    assert advice(explanation({Cause.TYPE_VERSION: 4}, policy="seal")) == ()
    [sentence] = advice(explanation({Cause.TYPE_VERSION: 4}, policy="warm-freeze"))
    assert "requests in the warm-up" in sentence


def test_new_memory_is_reported_first_and_how_much_of_it_is_free() -> None:
    fields = ((Cause.NEW_MEMORY, FREE, share(1)), (Cause.HOLE, FREE, share(9)))
    found = explanation({Cause.NEW_MEMORY: 6, Cause.GC_HEADER: 8}, fields=fields)
    first, second = advice(found)
    assert first.startswith(
        "6.0 MB (43 %) is memory that the parent never had: 1.0 MB of it is free at the moment, "
        "5.0 MB is what requests built, garbage that waits for a collection included"
    )
    assert second.startswith("8.0 MB by GC headers")


def test_new_memory_of_a_worker_that_grows_is_a_leak_and_no_warm_up_is_advised() -> None:
    kinds = (("str", 4.5), ("dict", 0.9), ("set", 0.1))
    fields = tuple((Cause.NEW_MEMORY, Label(name, ""), share(size)) for name, size in kinds)
    found = explanation({Cause.NEW_MEMORY: 6}, fields=fields, growth=Growth(30_200.0, 64))
    [sentence] = advice(found)
    assert sentence.startswith("the worker grows by 30.2 KB a request since request 64: looks like")
    assert "of 6.0 MB of new memory 75 % str, 15 % dict; start the server with" in sentence
    writers = (
        Writer("malloc", ("py::note:/shop.py",), Cause.HOLE, Label("malloc", ""), 70),
        Writer("malloc", ("py::app:/shop.py",), Cause.NEW_MEMORY, Label("new memory", ""), 50),
    )
    recording = Recording(3.0, 120, 0, (8,), writers)
    held = replace(found, grown=(Grown("list", "shop.LEAK", 1_200),), recording=recording)
    [sentence] = advice(held)
    assert (
        "items that only the worker has: 1,200 in shop.LEAK (list); most of it is made" in sentence
    )
    assert sentence.endswith("made in app:/shop.py")


def test_no_warm_up_is_advised_for_new_memory_that_is_free() -> None:
    fields = ((Cause.NEW_MEMORY, FREE, share(5.9)),)
    [sentence] = advice(explanation({Cause.NEW_MEMORY: 6, Cause.STACK: 8}, fields=fields))
    assert "nearly all of it is free" in sentence
    assert "warm-up" not in sentence


def test_little_new_memory_is_not_spoken_of() -> None:
    assert advice(explanation({Cause.NEW_MEMORY: 2, Cause.STACK: 8})) == ()


def test_libraries_that_write_are_named_last() -> None:
    fields = (
        (Cause.LIBRARY_DATA, Label("libssl.so.3", ""), share(0.2)),
        (Cause.LIBRARY_DATA, Label("libz.so.1", ""), share(0.1)),
    )
    found = explanation({Cause.GC_HEADER: 8, Cause.LIBRARY_DATA: 0.3}, fields=fields)
    assert advice(found)[1:] == ("0.2 MB is data that libssl.so.3 writes",)


RUNNING = {Cause.CODE_COUNTER: 6.0, Cause.CODE_CACHE: 4.0}
OLDEST = (3, 11)


def test_gathered_code_is_advised_where_the_policy_lacks_it() -> None:
    [sentence] = advice(explanation(RUNNING, python=OLDEST))
    assert "gathers the code" in sentence
    [sealed] = advice(explanation(RUNNING, policy="seal", python=OLDEST))
    assert "was gathered; the rest runs first in workers" in sealed


def test_reference_counts_under_a_seal_of_an_interpreter_without_immortality_are_reported() -> None:
    found = explanation({Cause.REFERENCE_COUNT: 9}, policy="seal", python=(3, 11))
    [sentence] = advice(found)
    assert "3.12 and later have one" in sentence


def test_pages_that_are_equal_again_have_a_remedy() -> None:
    [sentence] = advice(explanation({Cause.RESTORED: 57}))
    assert "the policy seal makes what the parent holds immortal" in sentence
    assert advice(explanation({Cause.RESTORED: 57}, policy="seal")) == ()


def test_no_warm_up_is_advised_for_a_worker_that_has_served_nothing() -> None:
    causes = {Cause.NEW_MEMORY: 277.0, Cause.DICT_KEYS: 20.0}
    [sentence] = advice(explanation(causes, policy="seal", requests=0, is_asgi=True))
    assert "built at its start, as in its lifespan: load it at import" in sentence
    assert "warm-up" not in sentence
    [sentence] = advice(explanation(causes, policy="seal", requests=0))
    assert "lifespan" not in sentence and "warm-up" not in sentence


def test_what_a_lifespan_builds_is_distinguished_from_what_requests_build() -> None:
    [sentence] = advice(
        explanation({Cause.NEW_MEMORY: 277}, policy="seal", requests=500, is_asgi=True)
    )
    assert "what a lifespan builds, each worker builds again" in sentence
    assert "a warm-up helps with what is built once" in sentence


def test_no_warm_up_is_advised_where_there_are_no_requests() -> None:
    causes = {Cause.CODE_CACHE: 2.0, Cause.DICT_KEYS: 3.0, Cause.NEW_MEMORY: 9.0}
    sentences = advice(explanation(causes, policy="seal", warms_up=False, requests=4))
    assert len(sentences) == 3
    assert all(
        "a warm-up with" not in words and "in the warm-up" not in words for words in sentences
    )
