"""Stands for the library of 2017 (an old msgpack) that turned the collector back on."""

import gc

gc.enable()
