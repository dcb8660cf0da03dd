"""All of this package that lies in an image: loading, what is observed of it, and how a program
begins and ends.

Imports nothing else of the package: that would be in every program's memory.
"""
