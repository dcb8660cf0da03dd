"""Counters that the processes of one server share and tools read.

`figures` has a row for each figure, `layout` the meaning of each word. `board` is the server's
side, `recorder` a worker's and `reader` an outsider's. The memory is a nameless file, which ends
with the server's processes.
"""
