"""Other people's applications, and whether they behave under pasture as they do without it."""
