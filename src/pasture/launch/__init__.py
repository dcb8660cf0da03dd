"""Programs that are started, watched and ended for certain, and the ports they listen on.

For whatever boots a program to try, measure, test or show it. Knows no server, load or command.
"""
