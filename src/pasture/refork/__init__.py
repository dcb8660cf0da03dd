"""Refork: a warmed worker becomes the next parent. This room has the part that all servers share.

`lifecycle` decides and touches no process; `channel` and `mold` are the edges.
A server carries it out in its own folder (`pasture.servers.gunicorn.refork`). docs/refork.md is
the user's guide, docs/internals/refork.md the design.

Terms: a *mold* is a process that serves no requests and forks workers; the server's own
first process is the mold of generation 0. A *generation* is a mold and the workers that it
forked. A *rollout* is the way from one generation to the next.
"""
