"""Libraries that set the collector's thresholds for a while, and set them back."""

AROUND = {
    "one full collection": "change(); gc.collect(); restore()",
    "no collection": "change(); restore()",
    "collections of the young": "gc.set_threshold(9); gc.collect(1); restore()",
    "many full collections": """
for _ in range(5): change(); gc.collect(); restore()
""",
    "the collector off": "gc.set_threshold(0); gc.collect(); restore()",
    "a fork": """
change()
gc.collect()
pid = os.fork()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    os._exit(0)
restore()
""",
}


IN_A_CHILD = """
default = gc.get_threshold()
pasture.seal()
def work():
    saved = gc.get_threshold()
    assert saved != default, "the pace has not started"
    def change(): gc.set_threshold(50_000, 20, 100)
    def restore(): gc.set_threshold(*saved)
    exec(AROUND, {**globals(), "change": change, "restore": restore})
    kept = [[i] for i in range(400_000)]
    gc.collect()
    low = gc.get_threshold()
    _native.end_adapting_thresholds()  # a pace that goes on puts back what it found
    return gc.get_threshold()[1:] == default[1:], low, saved
in_child(work)
"""


def test_a_sealed_child_is_not_left_with_full_collections_at_any_price(run_each):
    """The pace sets low thresholds and raises them by what collections cost. Where it has ended
    without saying so, low ones that a program puts back would stay for good."""
    outputs = run_each({name: f"AROUND = {text!r}\n{IN_A_CHILD}" for name, text in AROUND.items()})
    assert outputs.keys() == AROUND.keys()
    assert all(out.startswith("(True, ") for out in outputs.values()), outputs


def test_thresholds_that_a_program_sets_for_good_stay(run_program):
    out = run_program("""
        pasture.seal()
        def work():
            gc.set_threshold(900, 17, 19)
            for _ in range(3):
                kept = [[i] for i in range(100_000)]
                gc.collect()
            _native.end_adapting_thresholds()
            return gc.get_threshold()
        in_child(work)
    """)
    assert out == "(900, 17, 19)\n"


def test_no_full_collection_pays_in_one_or_beside_another_interpreter(run_program):
    out = run_program("""
        try:
            import _interpreters as interpreters
            def create(): return interpreters.create("legacy")
        except ImportError:
            import _xxsubinterpreters as interpreters
            def create(): return interpreters.create(isolated=False)

        print(_native.full_collection_pays(), _native.adapt_thresholds())
        kept = [[i] for i in range(1000)]
        print(_native.full_collection_pays())
        other = create()
        print(_native.full_collection_pays())
        interpreters.destroy(other)
        gc.callbacks.append(lambda *_: print(_native.full_collection_pays()))
        gc.collect()
        gc.callbacks.clear()
        gc.disable()
        print(_native.full_collection_pays())
    """)
    assert out.splitlines() == ["False True", "True", *["False"] * 4]
