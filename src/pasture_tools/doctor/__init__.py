"""`pasture doctor`: what keeps a server's workers from sharing memory, and what to do."""
