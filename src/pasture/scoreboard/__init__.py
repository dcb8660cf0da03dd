"""Counters that the processes of one server share, and that others may read.

`figures` has a row for each figure, `layout` says which word is what. `board` is the server's side,
`recorder` a worker's and `reader` an outsider's. The memory is a file without a name. It goes when
the server's processes go, so there is no folder to configure or to clean up. All of it runs inside
of servers, and imports only the standard library and readers of /proc that do the same.
"""
