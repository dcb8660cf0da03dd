"""Puts numbered jobs to an engine: `python soak_client.py MODULE`, a number a line.

Each is answered by a line: the number, and why the engine did not take it.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engine's client prints
    module = importlib.import_module(sys.argv[1])
    for line in iter(sys.stdin.readline, ""):
        why = ""
        try:
            module.put(int(line))
        except Exception as error:
            why = f"{type(error).__name__}: {error}".replace("\n", " ")
        answers.write(f"{line.strip()} {why}\n")
        answers.flush()


if __name__ == "__main__":
    main()
    os._exit(0)
