"""Imported by a page of `learning_app`."""

import os

PID = os.getpid()
