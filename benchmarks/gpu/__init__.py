"""pasture where there is a GPU: `make bench-gpu` measures, `make test-gpu` asserts.

Any environment that has torch and pasture serves: `GPU_PYTHON=/path/to/python make bench-gpu`.
"""
