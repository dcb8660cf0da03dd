"""Objects of PyO3, from wheels: containers that show the collector nothing, and some that do."""

import pytest

BOX = """
class Box:
    value = None
def hold(one, value): box_of(one).value = value
def held(one): return box_of(one).value
def called(value, box):
    if type(value) is tuple: box.value = value[0]
    return box.value
"""

# Rust holds the objects, and has no tp_traverse.
RPDS = {
    "HashTrieMap": """
def make(): return rpds.HashTrieMap({"box": Box(), "other": [1]})
def box_of(one): return one["box"]
""",
    "HashTrieSet": """
def make(): return rpds.HashTrieSet([Box()])
def box_of(one): return next(iter(one))
""",
    "List": """
def make(): return rpds.List([Box(), [1]])
def box_of(one): return one.first
""",
    "Queue": """
def make(): return rpds.Queue([Box(), [1]])
def box_of(one): return one.peek()
""",
    "Stack": """
def make(): return rpds.Stack([[1], Box()])
def box_of(one): return one.peek()
""",
    "grown by sharing": """
first = rpds.HashTrieMap({number: [number] for number in range(50)})
def make(): return first.insert("box", Box())
def box_of(one): assert one[7] == [7]; return one["box"]
""",
}

PYDANTIC = {
    "validator": """
def make():
    return core.SchemaValidator(schema.no_info_plain_validator_function(partial(called, box=Box())))
def hold(one, value): one.validate_python((value,))
def held(one): return one.validate_python(None)
""",
    "serializer": """
def make():
    serialize = schema.plain_serializer_function_ser_schema(partial(called, box=Box()))
    return core.SchemaSerializer(schema.any_schema(serialization=serialize))
def hold(one, value): one.to_python((value,))
def held(one): return one.to_python(None)
""",
    "validator of a class": """
def make():
    class Model: __slots__ = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__",
                              "__pydantic_private__")
    Model.box = Box()
    fields = {"number": schema.model_field(schema.int_schema())}
    return core.SchemaValidator(schema.model_schema(Model, schema.model_fields_schema(fields)))
def box_of(one): return one.validate_python({"number": 1}).box
""",
    "arguments": """
def make(): return core.ArgsKwargs((Box(),), {"a": [1]})
def box_of(one): return one.args[0]
""",
    "error": """
def make():
    details = [{"type": "missing", "loc": ("a",), "input": Box()}]
    return core.ValidationError.from_exception_data("title", details)
def box_of(one): return one.errors(include_url=False)[0]["input"]
""",
    "error of one's own": """
def make(): return core.PydanticCustomError("kind", "text", {"box": Box()})
def box_of(one): return one.context["box"]
""",
}


@pytest.mark.parametrize("kind", RPDS)
def test_containers_without_a_traverse_live_through_everything(live_through, generators, kind):
    live_through(f"import rpds\n{BOX}{RPDS[kind]}", [generators("rpds")])


@pytest.mark.parametrize("kind", PYDANTIC)
def test_objects_of_pydantic_core_live_through_everything(live_through, generators, kind):
    start = (
        "import pydantic_core as core\nfrom functools import partial\nschema = core.core_schema\n"
    )
    kind = start + BOX + PYDANTIC[kind]
    live_through(kind, [generators("pydantic_core")], some=500, many=3000)


def test_a_seal_inside_of_a_validator(seal_inside, generators):
    call = """
import pydantic_core as core
schema = core.core_schema
def call(function):
    validate = schema.no_info_plain_validator_function(lambda value: function())
    items = schema.list_schema(schema.chain_schema([schema.any_schema(), validate]))
    return core.SchemaValidator(items).validate_python([1])[0]
"""
    seal_inside(call, [generators("pydantic_core")])


def test_strings_that_only_memory_of_rust_holds_stay_whole(run_program, generators):
    out = run_program(
        """
import jiter
texts = [("{" + ", ".join(f'"key {i} {j}": "text {j} {i}"' for j in range(50)) + "}").encode()
         for i in range(40)]
def parse():
    for i, text in enumerate(texts):
        found = jiter.from_json(text, cache_mode="all")
        assert found == {f"key {i} {j}": f"text {j} {i}" for j in range(50)}
    return gc.collect() >= 0 and pasture.collect() >= 0
assert parse() and jiter.cache_usage() > 0
def reseal():
    assert parse() and pasture.seal().sealed
    in_child(parse)
    return parse()
print(reseal())
in_child(reseal)
jiter.cache_clear()
in_child(parse)
print(parse())
""",
        path=[generators("jiter")],
    )
    assert out == "True\n" * 6
