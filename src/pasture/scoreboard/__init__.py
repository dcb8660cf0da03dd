"""What the processes of one server show each other and whoever may look at them: numbers alone.

`layout` says which word is what, `board` is the server's side, `reader` an outsider's and
`recorder` a worker's. The memory is a file without a name that belongs to the server's tree
of processes and goes with it: there is no folder to configure, to fill or to clean up.
Imports the standard library alone, and readers of /proc that do likewise, since all of it runs
inside of servers.
"""
