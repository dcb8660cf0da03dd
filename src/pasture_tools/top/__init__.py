"""`pasture top`: the memory of a server's workers, once a second."""
