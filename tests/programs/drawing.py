"""Loads generators of random numbers, and prints which of them two forked children share.

The arguments are code that runs before the parent loads for its children, then, and after it.
Started by tests/integration/test_draws.py.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from pasture.own_values import generators

LOADED = """
import os
import secrets
import sqlite3
import uuid
import numpy.random as numbers

unseeded = numbers.default_rng()
seeded = numbers.default_rng(5)
sequence = numbers.SeedSequence()
spawned = [numbers.default_rng(one) for one in sequence.spawn(2)]
legacy = numbers.RandomState()
legacy.standard_normal()  # it keeps another one
legacy_seeded = numbers.RandomState(4)
own = random.Random()
own_seeded = random.Random(3)
drawn = random.Random(os.urandom(16))
drawn_number = random.Random(secrets.randbits(128))
copied = random.Random()
copied.setstate(own.getstate())
kinds = (numbers.MT19937, numbers.PCG64DXSM, numbers.Philox, numbers.SFC64)
twister, dxsm, philox, sfc = (numbers.Generator(kind()) for kind in kinds)
restored = numbers.default_rng()
restored.bit_generator.state = seeded.bit_generator.state
uuid.uuid1()
database = sqlite3.connect(":memory:", isolation_level=None)
database.execute("SELECT random()").fetchall()
draws = {
    "numpy": lambda: numbers.random(),
    "default_rng": unseeded.random,
    "default_rng, seeded": seeded.random,
    "spawned": spawned[0].random,
    "spawned later": lambda: numbers.default_rng(sequence.spawn(1)[0]).random(),
    "RandomState": legacy.standard_normal,
    "RandomState, seeded": legacy_seeded.random,
    "Random": own.random,
    "Random, seeded": own_seeded.random,
    "Random, drawn seed": drawn.random,
    "Random, drawn number": drawn_number.random,
    "Random, set": copied.random,
    "MT19937": twister.random,
    "PCG64DXSM": dxsm.random,
    "Philox": philox.random,
    "SFC64": sfc.random,
    "PCG64, set": restored.random,
    "uuid1": lambda: uuid.uuid1().clock_seq,
    "random": random.random,
    "sqlite3": lambda: database.execute("SELECT hex(randomblob(8))").fetchall(),
}
"""


def in_children(draws: dict[str, Callable[[], object]]) -> list[dict[str, str]]:
    """What two children of this process draw."""
    drawn = []
    for _ in range(2):
        end, other = os.pipe()
        if os.fork() == 0:
            text = json.dumps({name: str(draw()) for name, draw in draws.items()})
            os.write(other, text.encode())
            os._exit(0)
        os.wait()
        drawn.append(json.loads(os.read(end, 1 << 16)))
    return drawn


def main() -> None:
    names: dict[str, Any] = {"random": random}
    before, within, after = sys.argv[1:]
    exec(before, names)
    with generators.observed():
        exec(LOADED, names)
        exec(within, names)
    exec(after, names)
    first, second = in_children(names["draws"])
    hazards = [str(hazard) for hazard in generators.hazards()]
    print(json.dumps([[name for name in first if first[name] == second[name]], hazards]))


main()
