"""Messages of less trusted processes, random and mutated, at the code that takes them.

`python tests/fuzz/channels --messages 1000000 --seed 7`. Each target of `targets` runs in a process
of its own. Exits with 1 if one of them crashed, raised, sent a signal to a process that is no
child of its own, or grew.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from random import Random

import click
from guard import Guard
from mutation import mutated
from targets import TARGETS, Target, open_target

FIRST_LOOK = 0.2
"""Fraction of the messages after which the process is as large as it may be."""


@click.command(help=__doc__)
@click.option("--messages", type=click.IntRange(10), default=100_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="Number of the first message.")
@click.option("--target", "names", type=click.Choice(list(TARGETS)), multiple=True)
def main(messages: int, seed: int, first: int, names: tuple[str, ...]) -> None:
    numbers = range(first, first + messages)
    sys.exit(1 if [name for name in names or TARGETS if not runs(name, seed, numbers)] else 0)


def runs(name: str, seed: int, numbers: range) -> bool:
    """Throw messages at a target, in a child; whether that went well."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            throw(name, seed, numbers)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        print(f"{name}: failed with exit status {code}", flush=True)
    return code == 0


def throw(name: str, seed: int, numbers: range) -> None:
    """In the child: all messages, then what they have changed in this process."""
    guard, begin = Guard(), time.monotonic()
    with open_target(name) as target, guard.watching():
        for number in numbers:
            if number == numbers.start + int(len(numbers) * FIRST_LOOK):
                guard.note_size()
            handle(target, seed, number)
        grown_bytes = guard.check_size()
    seconds = time.monotonic() - begin
    print(
        f"{name}: {len(numbers):,} messages from seed {seed} in {seconds:.0f} s, "
        f"{len(numbers) / seconds:,.0f} a second; {guard.signals:,} signals, all to children; "
        f"{grown_bytes / 1024:.0f} KiB more memory, no descriptor more",
        flush=True,
    )
    for line in outcomes(target):
        print(f"  {line}", flush=True)


def handle(target: Target, seed: int, number: int) -> None:
    """One message, which depends on seed and number alone."""
    random = Random((seed << 40) + number)
    data = mutated(random, target.sample(random))
    try:
        target.take(data, random)
    except BaseException:
        print(f"message {number} of seed {seed}: {data[:300]!r}", flush=True)
        raise


def outcomes(target: Target) -> Iterator[str]:
    """What became of the messages, so that a target that rejects all is noticed."""
    for outcome, count in sorted(target.outcomes.items()):
        yield f"{outcome}: {count:,}"


if __name__ == "__main__":
    main()
