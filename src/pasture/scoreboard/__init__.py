"""Counters that the processes of one server share, and that others may read.

`figures` has a row for each figure, `layout` says which word is what. `board` is the server's side,
`recorder` a worker's and `reader` an outsider's. The memory is a file without a name, which goes
when the server's processes go.
"""
