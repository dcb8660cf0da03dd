"""Preload module in front of those that a forkserver loads for pasture's sake.

Importing it is the switch: generators that seed themselves from here on are each child's own, until
`pasture.servers.forkserver` is imported.
"""

from pasture import off
from pasture.own_values import generators

if not off.why():
    generators.observe()
