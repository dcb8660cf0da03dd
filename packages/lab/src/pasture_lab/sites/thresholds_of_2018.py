"""CPython's thresholds up to 3.12: a young collection every 700 new objects.

From 3.13 on it is 2,000, counted as allocations less deallocations.
"""

import gc

gc.set_threshold(700, 10, 10)
