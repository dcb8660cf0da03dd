"""A module an agent: `start()` as its makers tell, `report(mark)` what a request tells it.

They run in the agent's environment, in the application that is served. `mark(kind)` is a text
that occurs once: the sink counts how often it arrives. Where the sink is, variables tell.
"""
