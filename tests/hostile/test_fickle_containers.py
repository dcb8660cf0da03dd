"""Listed objects whose type says at times that they are no containers: active greenlets."""

import importlib.util
import sys
import textwrap

import pytest

RUNS = {
    "built-in": "gc.collect()",  # in the parent: what the others are measured by
    "collect": "pasture.collect()",
    "collect frozen": "pasture.collect(frozen=True)",
    "install": "pasture.gc.install(); gc.collect()",
}

PLACES = {
    "parent": "report = lambda run: print(run())",
    "sealed child": "pasture.seal(); report = in_child",
    "nothing frozen": "pasture.gc.install(); report = in_child",
}


def in_each_place(source: str) -> dict[str, str]:
    """The source for each way to collect in each place: a dict of name to program."""
    return {
        f"{run}, {place}": textwrap.dedent(source).replace("RUN", call).replace("PLACE", begin)
        for run, call in RUNS.items()
        for place, begin in PLACES.items()
    }


def test_garbage_between_them_is_found(run_each, build_extension):
    programs = in_each_place("""
        import fickle
        PLACE
        def work():
            gc.disable()
            pasture.collect()
            kept, old = [], []
            for number in range(3000):
                old += [cycle() for _ in range(number % 5)]
                one = fickle.Fickle()
                one.set_container(number % 3 == 0)
                one.hold([one, number])
                kept.append(one)
            dead = [weakref.ref(node) for node in old]
            gc.collect(0); gc.collect(1)
            old.clear(); del one
            RUN
            lost = sum(ref() is not None for ref in dead)
            held = all(one.held() == [one, number] for number, one in enumerate(kept))
            again = pasture.collect()
            for one in kept: one.set_container(True)
            dead = [weakref.ref(one) for one in kept]
            kept.clear(); del one
            RUN
            return lost, held, again, sum(ref() is not None for ref in dead)
        report(work)
    """)
    found = run_each(programs, path=[build_extension("fickle")])
    assert found == dict.fromkeys(programs, "(0, True, 0, 0)\n")


def test_the_seal_collects_garbage_between_them(run_program, build_extension):
    out = run_program(
        """
        import fickle
        kept, old = [], []
        for number in range(3000):
            kept.append(fickle.Fickle())
            kept[-1].set_container(False)
            kept[-1].hold([number])
            old.append(cycle())
        dead = [weakref.ref(node) for node in old]
        gc.collect(0); gc.collect(1)
        old.clear()
        pasture.seal()
        print(sum(ref() is not None for ref in dead))
        in_child(lambda: [one.held() for one in kept] == [[i] for i in range(3000)])
        """,
        path=[build_extension("fickle")],
    )
    assert out == "0\nTrue\n"


def test_one_that_becomes_a_container_during_a_collection_survives_it(run_program, build_extension):
    out = run_program(
        """
        import fickle
        gc.disable()
        ones = [fickle.Fickle() for _ in range(100)]
        class Turner(Node):
            def __del__(self):
                for one in ones: one.set_container(not turned)
        for turned in (False, True, False):
            cycle(Turner)
            pasture.collect()
            gc.collect()
        for one in ones: one.hold(ones)
        gc.get_objects()
        print(all(one.held() is ones for one in ones), pasture.collect())
        """,
        path=[build_extension("fickle")],
    )
    assert out == "True 0\n"


@pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet is not installed here"
)
def test_garbage_between_active_greenlets_is_found(run_each):
    programs = in_each_place("""
        import greenlet
        PLACE
        def work():
            gc.disable()
            pasture.collect()
            def body(number):
                local = [number]
                got = greenlet.getcurrent().parent.switch(number)
                return local, got
            active, old = [], []
            for number in range(300):
                active.append(greenlet.greenlet(body))
                assert active[-1].switch(number) == number
                old.append(cycle())
            dead = [weakref.ref(node) for node in old]
            gc.collect(0); gc.collect(1)
            old.clear()
            RUN
            lost = sum(ref() is not None for ref in dead)
            ends = [each.switch("end") for each in active]
            return lost, ends == [([i], "end") for i in range(300)], pasture.collect()
        report(work)
    """)
    found = run_each(programs, path=[path for path in sys.path if path.endswith("site-packages")])
    assert found == dict.fromkeys(programs, "(0, True, 0)\n")
