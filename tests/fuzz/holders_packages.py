"""Holders of third parties: Cython, the stable ABI, PyO3, and stacks that are switched.

Each is there where its package is: `make fuzz` installs them beside the check builds.
"""

from __future__ import annotations

import importlib.util
from operator import itemgetter
from random import Random
from typing import Any

from holders import holder
from world import Getter

if importlib.util.find_spec("greenlet"):
    import greenlet

    def _serve(held: Any) -> None:
        while True:
            greenlet.getcurrent().parent.switch(held)

    def _switch(made: Any) -> Any:
        made.parent = greenlet.getcurrent()
        return made.switch()

    @holder
    def in_greenlet(held: Any, rng: Random) -> tuple[Any, Getter]:
        made = greenlet.greenlet(_serve)
        made.switch(held)
        return made, _switch


if importlib.util.find_spec("numpy"):
    import numpy

    @holder
    def in_object_array(held: Any, rng: Random) -> tuple[Any, Getter]:
        made = numpy.empty(rng.randrange(1, 100), dtype=object)
        made[0] = [held]
        return made, lambda made: made[0][0]


if importlib.util.find_spec("lxml"):
    import lxml.etree

    @holder
    def in_parsed_tree(held: Any, rng: Random) -> tuple[Any, Getter]:
        class Element(lxml.etree.ElementBase):
            kept = (held,)

        lookup = lxml.etree.ElementDefaultClassLookup(element=Element)
        parser = lxml.etree.XMLParser()
        parser.set_element_class_lookup(lookup)
        return lxml.etree.fromstring("<a><b/></a>", parser), lambda made: made.kept[0]


if importlib.util.find_spec("sqlalchemy"):
    from sqlalchemy.engine import result

    @holder
    def in_row(held: Any, rng: Random) -> tuple[Any, Getter]:
        rows = result.IteratorResult(result.SimpleResultMetaData(["a", "b"]), iter([(1, held)]))
        return rows.all(), lambda made: made[0].b


if importlib.util.find_spec("msgpack"):
    import msgpack

    @holder
    def in_unpacker(held: Any, rng: Random) -> tuple[Any, Getter]:
        made = msgpack.Unpacker(object_hook=lambda _: held)
        made.feed(msgpack.packb([{"key": b"bytes"}] * 2) if rng.random() < 0.5 else b"")

        def get(made: Any) -> Any:
            made.feed(msgpack.packb({"key": 1}))
            found = next(made)
            return found[0] if isinstance(found, list) else found

        return made, get


if importlib.util.find_spec("orjson"):
    import orjson

    @holder
    def beside_parsed_text(held: Any, rng: Random) -> tuple[Any, Getter]:
        text = orjson.dumps([{"key": "text", "number": 1.5, "none": None, "e": "\u00e9"}] * 3)
        made = orjson.loads(text)
        made.append(held)
        orjson.dumps(object(), default=lambda _: "made")
        return made, itemgetter(-1)


if importlib.util.find_spec("cryptography"):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    @holder
    def beside_stable_abi(held: Any, rng: Random) -> tuple[Any, Getter]:
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fuzz")])
        digest = hashes.Hash(hashes.SHA256())
        digest.update(b"some bytes")
        return (name, digest, digest.copy(), held), itemgetter(3)


if importlib.util.find_spec("pydantic_core"):
    import pydantic_core

    @holder
    def in_validator(held: Any, rng: Random) -> tuple[Any, Getter]:
        schema = pydantic_core.core_schema
        validator = pydantic_core.SchemaValidator(
            schema.no_info_plain_validator_function(lambda _: held)
        )
        return validator, lambda made: made.validate_python(1)
