"""A module an agent: `start()` as its documentation says, `report(mark)` what a request reports.

They run in the agent's environment, in the application that is served. `mark(kind)` is a text
that occurs once: the sink counts how often it arrives. Variables of the environment name the sink.
"""
