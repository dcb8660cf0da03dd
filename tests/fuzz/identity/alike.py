"""What two plain runs of a program agree in, and what of that another run does otherwise.

Values that differ between the plain runs are not compared. What holds between them is: two that
are equal in both plain runs have to be equal, two that differ in both have to differ; and what is
another one in each plain run is another one in each run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

Notes = Mapping[tuple[str, int, str], str]
"""By role, number and expression: what a process has taken."""

LEFT = "file a temporary file"
_WORD = re.compile(r"\w+|\W")


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its status, what it printed, noted, and left in its folder."""

    status: int
    texts: Mapping[str, str]
    notes: Notes


def flat(one: Outcome) -> dict[str, str]:
    """Each value by a name."""
    notes = {f"{role} {number}: {what}": value for (role, number, what), value in one.notes.items()}
    return {"status": f"{one.status}", **one.texts, **notes}


def documented(name: str, image: bool) -> bool:
    """What differs as docs/seal.md and docs/image.md say.

    A child ends without finalization, so that a temporary file stays; programs out of a file have
    one hash seed, and do not finalize what they put into its modules.
    """
    in_child = " > " in name.partition(":")[0]
    of_the_end = name.endswith((": deleted", ": held", ": closed", ": counted", ": ref"))
    of_an_image = "hash(" in name or "list({" in name or name.endswith(": held")
    return (in_child and of_the_end) or name == LEFT or (image and of_an_image)


def differences(
    plain: tuple[Outcome, Outcome], other: tuple[Outcome, Outcome]
) -> Iterator[tuple[str, str]]:
    """The name of each thing that differs, and what it is in either."""
    first, second = (flat(one) for one in plain)
    third, fourth = (flat(one) for one in other)
    same = first.keys() & second.keys()
    if first.keys() == second.keys():
        for name in third.keys() ^ first.keys():
            if name.endswith((": deleted", ": closed")) and name not in first:
                continue  # docs/seal.md, of a parent's last objects: names are in place for longer
            yield name, f"{first.get(name, 'nothing')!r} -> {third.get(name, 'nothing')!r}"
    varying = []
    for name in sorted(same & third.keys()):
        if first[name] == second[name] or name in plain[0].texts:
            if name.endswith((": deleted", ": held")) and "'NoneType' object" in first[name]:
                continue  # docs/seal.md: a parent's last objects find names that plain ones miss
            if name.startswith("file ") and third[name].startswith(first[name]):
                continue  # a seal and a child's end write what plain ones may lose: docs/seal.md
            if name == "stdout" and is_written_once(first[name], third[name]):
                continue  # what a seal has flushed no child writes again: docs/seal.md
            if not agrees(first[name], second[name], third[name]):
                yield name, f"{first[name]!r} -> {third[name]!r}"
        elif name != "status" or third[name] not in (first[name], second[name]):
            varying.append(name)
            if name in fourth and third[name] == fourth[name]:
                yield name, f"is another one in each run -> always {third[name]!r}"
    for left, right in combinations(varying, 2):
        held = {one[left] == one[right] for one in (first, second)}
        if len(held) == 1 and (third[left] == third[right]) not in held:
            yield f"{left} and {right}", "equal -> differ" if held == {True} else "differ -> equal"


def is_written_once(first: str, third: str) -> bool:
    """Whether lines of a text, or words of its only one, are left out that it has several times."""
    parts = str.split if "\n" not in first else str.splitlines
    many, once = Counter(parts(first)), Counter(parts(third))
    return once <= many and once.keys() == many.keys()


def agrees(first: str, second: str, third: str) -> bool:
    """Whether a text is what two are in all in which these two agree."""
    if first == second:
        return third == first
    words = [_WORD.findall(text) for text in (first, second, third)]
    if len(words[0]) != len(words[1]):
        return True  # nothing can be said
    if len(words[2]) != len(words[0]):
        return False
    return all(a != b or a == c for a, b, c in zip(*words, strict=True))
