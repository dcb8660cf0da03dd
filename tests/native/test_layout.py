"""Layouts, types and threads: the facts the other steps rest on."""

from pasture import _native


def test_the_assumed_layouts_match_this_interpreter():
    assert _native.UNSUPPORTED is None
    _native.check_layout()


def test_the_layout_check_changes_no_collector_setting(run_program):
    out = run_program("""
        gc.set_threshold(701, 11, 12)
        frozen = gc.get_freeze_count()
        _native.check_layout()
        print(gc.get_threshold(), gc.isenabled(), gc.get_freeze_count() - frozen)
        gc.freeze()
        _native.check_layout()
        print(gc.get_freeze_count() > 0)
    """)
    assert out == "(701, 11, 12) True 0\nTrue\n"


def test_every_type_gets_its_version_tag_once(run_program):
    out = run_program("""
        class Fresh: pass
        print(_native.precompute_types() > 0, _native.precompute_types())
    """)
    assert out == "True 0\n"


def test_threads_are_counted(run_program):
    out = run_program("""
        import threading
        gate = threading.Event()
        threads = [threading.Thread(target=gate.wait) for _ in range(3)]
        for thread in threads: thread.start()
        print(_native.python_threads())
        gate.set()
        for thread in threads: thread.join()
        print(_native.python_threads())
    """)
    assert out == "4\n1\n"
