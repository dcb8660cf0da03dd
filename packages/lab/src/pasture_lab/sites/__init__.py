"""The applications that experiments load. Their folder is put on the server's path: they run
under any interpreter, and import nothing of pasture but under a policy of its.
"""
