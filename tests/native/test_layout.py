"""Layouts, types and threads: the facts the other steps rest on."""

import ast
import os
import sys

import pytest

from pasture import _native

ROWS = _native.private_fields()
EVERYTHING = "everything"
check_build = pytest.mark.skipif(
    not hasattr(_native, "shift_field"), reason="fields are shifted in the check build alone"
)

PLAIN = os.environ | ({"PYTHONMALLOC": "pymalloc"} if hasattr(sys, "gettotalrefcount") else {})
"""A debug build wraps pymalloc, so that its pools are neither used nor verified."""

SEAL_WITHOUT_EACH = """
    import pasture
    from pasture import interpreter

    def work():
        data = [[number] for number in range(5000)]
        for each in data: each.append(data)
        del data, each
        gc.collect()
        return sum(range(10))

    def seal_without(row):
        field, _, _, parts, _ = _native.private_fields()[row]
        _native.shift_field(row, 1 if field.startswith("opcodes") else 8)
        interpreter._fits = None
        interpreter.native.cache_clear()
        report = pasture.seal()
        assert report.sealed == ("everything" not in parts), report
        # Before 3.12 objects cannot be immortal in any case, which is the reason then.
        if _native.HAS_IMMORTALITY or parts != ("immortal objects",):
            assert field in str(report), (field, report)
            assert interpreter.BUILD_HERE in str(report)
        in_child(work)
        return field

    for row in range(len(_native.private_fields())):
        in_child(lambda: seal_without(row))
"""

NOT_UNIQUE = {"PyInterpreterState.atexit.callbacks", "PyInterpreterState.atexit.ncallbacks"}
if sys.version_info < (3, 12):
    NOT_UNIQUE |= {"_PyInterpreterFrame.owner", "_PyInterpreterFrame.stacktop"}
"""Fields that are verified in other places, too: docs/internals/layouts.md has why."""

WITH_EACH_ELSEWHERE = """
    def is_noticed(row, field, shift):
        _native.shift_field(row, shift)
        try:
            _native.check_layout()
        except RuntimeError:
            return True
        return any(field in why for _, why in _native.left_out())

    for row, (field, *_) in enumerate(_native.private_fields()):
        shifts = [shift for shift in range(-128, 129, 4) if shift]
        in_child(lambda: [field, *(shift for shift in shifts if not is_noticed(row, field, shift))])
"""


def test_the_assumed_layouts_match_this_interpreter():
    assert _native.UNSUPPORTED is None
    _native.check_layout()


@check_build
def test_a_field_is_verified_in_its_place_and_at_no_distance_of_it(run_program):
    out = run_program(WITH_EACH_ELSEWHERE, env=PLAIN)
    found = [ast.literal_eval(line) for line in out.splitlines()]
    assert [field for field, *_ in found] == [field for field, *_ in ROWS]
    assert {field: shifts for field, *shifts in found if shifts and field not in NOT_UNIQUE} == {}


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


def test_each_field_says_how_it_is_found_and_verified():
    fields = [field for field, *_ in ROWS]
    assert len(set(fields)) == len(fields)
    assert all(found and verified and parts for _, found, verified, parts, _ in ROWS)
    assert {part for row in ROWS for part in row[3]} >= {EVERYTHING, "collections out of line"}


def test_nothing_is_left_out_where_every_field_is_in_its_place(run_program):
    assert run_program("_native.check_layout(); print(_native.left_out())") == "[]\n"


@check_build
@pytest.mark.parametrize("direction", [1, -1])
def test_each_field_that_is_somewhere_else_is_noticed(run_program, direction):
    out = run_program(
        f"""
        for row, (field, _, _, parts, _) in enumerate(_native.private_fields()):
            _native.shift_field(row, {direction} * (1 if field.startswith("opcodes") else 8))
            try:
                _native.check_layout()
            except RuntimeError as error:
                assert "everything" in parts and field in str(error), (field, error)
                assert "pip install" in str(error)
            else:
                left_out = _native.left_out()
                assert tuple(part for part, _ in left_out) == parts, (field, left_out)
                assert all(field in why and "pip install" in why for _, why in left_out)
        print("all")
    """,
        env=PLAIN,
    )
    assert out == "all\n"


@check_build
def test_what_is_somewhere_else_is_kept_from_readers_in_python(run_program):
    out = run_program(
        """
        from pasture.interpreter import fields
        from pasture_tools.proc.pymalloc import own_pools
        def shift(field, bytes):
            rows = [row[0] for row in _native.private_fields()]
            _native.shift_field(rows.index(field), bytes)
            return fields()
        print("hash" in shift("PyASCIIObject.hash", 8)["str"], own_pools() is not None)
        print("hash" in shift("cpy_pool.szidx", 8)["str"], own_pools() is not None)
        print("hash" in shift("cpy_pool.szidx", 0)["str"], own_pools() is not None)
    """,
        env=PLAIN,
    )
    assert out.splitlines() == ["False True", "True False", "True True"]


@check_build
def test_without_the_fields_of_the_collector_what_needs_them_refuses_in_words(run_program):
    out = run_program("""
        def refuses():
            said = []
            for call in (lambda: _native.collect(False), lambda: _native.watch_collections(True),
                         _native.full_collection_rule, lambda: _native.instances((int,)),
                         lambda: _native.finalize_before_modules(0), _native.unfrozen_objects):
                try: call()
                except NotImplementedError as error: said.append("pip install" in str(error))
            return said

        _native.shift_field(0, 0)  # not looked at yet
        print(refuses(), _native.forget_frozen())
        for row, (*_, parts, _) in enumerate(_native.private_fields()):
            if "collections out of line" in parts and "everything" not in parts:
                break
        for shift in (8, 0):
            _native.shift_field(row, shift)
            _native.check_layout()
            print(refuses())
    """)
    refused = "[True, True, True, True, True, True]"
    assert out.splitlines() == [f"{refused} False", refused, "[]"]


@check_build
def test_a_row_that_is_not_there_cannot_be_shifted(run_program):
    out = run_program("""
        try: _native.shift_field(len(_native.private_fields()), 8)
        except IndexError as error: print(error)
        _native.check_layout()
    """)
    assert out == "no such field\n"


@check_build
@pytest.mark.parametrize(
    "name, kind", [("gettotalrefcount", "debug"), ("getobjects", "reference-tracing")]
)
def test_another_kind_of_build_is_refused_before_any_field_is_read(run_program, name, kind):
    out = run_program(f"""
        import sys
        _native.shift_field(0, 0)
        if hasattr(sys, {name!r}): del sys.{name}
        else: sys.{name} = None
        try: _native.check_layout()
        except RuntimeError as error: print(error)
    """)
    assert kind in out and "pip install" in out


@check_build
def test_a_tool_may_keep_the_function_that_looks_at_samples(run_program):
    out = run_program("""
        import sys
        kept = []
        def profile(frame, event, arg):
            if event == "c_call" and arg.__name__ == "look": kept.append(arg)
        _native.shift_field(0, 0)
        sys.setprofile(profile)
        _native.check_layout()
        sys.setprofile(None)
        print(len(kept), kept[0]("called later"), _native.left_out())
    """)
    assert out == "1 None []\n"


@check_build
def test_a_field_in_its_place_again_is_used_again(run_program):
    out = run_program("""
        _native.shift_field(0, 8)
        try:
            _native.check_layout()
        except RuntimeError:
            print("refused")
        _native.shift_field(0, 0)
        _native.check_layout()
        print(_native.left_out())
    """)
    assert out == "refused\n[]\n"


@check_build
def test_without_any_one_field_a_process_seals_with_the_rest(run_program):
    out = run_program(SEAL_WITHOUT_EACH, env=PLAIN)
    assert [line for line in out.splitlines() if line != "45"] == [row[0] for row in ROWS]


@check_build
def test_two_fields_of_one_part_leave_it_out_once_and_one_of_all_everything(run_program):
    out = run_program("""
        def rows_of(part):
            return [row for row, (*_, parts, _) in enumerate(_native.private_fields())
                    if part in parts and (part == "everything" or "everything" not in parts)]
        def refused(*calls):
            said = []
            for call in calls:
                try: call()
                except (NotImplementedError, RuntimeError) as error: said.append(type(error))
            return len(said) == len(calls)

        first, second = rows_of("gathered code")[:2]
        assert second == first + 1
        _native.shift_field(first, 8, 2)
        _native.check_layout()
        [why] = [why for part, why in _native.left_out() if part == "gathered code"]
        print(_native.private_fields()[first][0] in why)
        print(refused(_native.code_that_ran, _native.gather_code), _native.forget_code_runs())
        _native.shift_field(rows_of("everything")[0], 8)
        print(refused(_native.check_layout, _native.field_offsets, _native.unfrozen_objects))
    """)
    assert out == "True\nTrue None\nTrue\n"
