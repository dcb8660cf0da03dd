"""`make engines`: what each server and engine that forks or spawns needs, as it is and sealed.

A row of the table is one small module in `rows/`. README.md says how to write one.
"""
