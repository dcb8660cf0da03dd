"""`frozendict`, a builtin type since CPython 3.15: a dictionary that is not one."""

import builtins

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(builtins, "frozendict"), reason="frozendict came with CPython 3.15"
)

KEYS = {
    "strings": "frozendict({key('a'): 1, key('b'): 2})",
    "one string": "frozendict({key('c'): 1})",
    "strings and others": "frozendict({key('d'): 1, 7000.5: 2, (1.25, key('e')): 3})",
    "an instance of a derived class": "type('Derived', (frozendict,), {})({key('f'): 1})",
    "a frozendict as a key": "frozendict({frozendict({key('g'): 1}): 2})",
    "values": "frozendict({'name': [key('h'), {key('i'): key('j')}]})",
}


@pytest.mark.parametrize("made", KEYS.values(), ids=KEYS.keys())
def test_keys_and_values_become_immortal(run_program, made):
    out = run_program(f"""
        def key(text): return "".join([text, " that nothing else holds"])
        def parts(op):
            yield op
            if isinstance(op, (dict, frozendict)):
                for pair in op.items(): yield from parts(pair[0]); yield from parts(pair[1])
            elif isinstance(op, (list, tuple)):
                for each in op: yield from parts(each)
        made = [{made}]
        pasture.seal()
        print([part for part in parts(made) if not _native.is_immortal(part)])
    """)
    assert out == "[]\n"


def test_what_one_holds_is_alive_and_what_died_with_it_is_found(run_program):
    out = run_program("""
        gc.disable()
        def make(number):
            node = Node()
            node.self = frozendict({"node": node, number: [node]})
            return node
        kept = [make(i) for i in range(1000)]
        old = [make(i) for i in range(1000)]
        dead = [weakref.ref(each) for each in old]
        gc.collect(0); gc.collect(1)
        old.clear()
        pasture.collect()
        print(sum(ref() is not None for ref in dead))
        print(all(each.self["node"] is each for each in kept), pasture.gc.history().garbage >= 1000)
    """)
    assert out == "0\nTrue True\n"
