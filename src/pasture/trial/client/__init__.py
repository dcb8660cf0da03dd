"""The programs that send a load, each in a process of its own.

They import the standard library, each other, and Locust where there is one; of pasture a single
file, by its path: the interpreter of a locustfile may have no pasture.
"""
