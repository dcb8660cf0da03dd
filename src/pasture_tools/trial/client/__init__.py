"""The program that sends a load, in a process of its own: of pasture it imports a single file."""
