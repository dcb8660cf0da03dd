"""`pasture`, with a failing call from the first work of a command on: `armed.py WORD...`."""

import os
import sys

import failing

from pasture_tools.cli.main import run

failing.calls(*map(int, os.environ["FAILURE_OF"].split()))
sys.exit(run(sys.argv[1:]))
