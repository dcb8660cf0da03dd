"""Readers of processes that the command alone needs: memory word by word, page faults, ELF files.

As in `pasture.proc` nothing here writes to a process or knows a command.
"""
