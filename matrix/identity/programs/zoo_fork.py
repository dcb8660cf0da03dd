"""The zoo in a program that forks by itself, and seals if asked to: `zoo_fork.py [sealed]`."""

import os
import sys

import zoo

if sys.argv[1:]:
    import pasture

    print(pasture.seal(), flush=True)
for _ in range(2):
    if not os.fork():
        zoo.write()
        os._exit(0)
for _ in range(2):
    os.wait()
