"""The program that sends a load, in its own process; it imports one file of pasture."""
