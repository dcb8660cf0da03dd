"""Readers of running processes, from outside: /proc, the kernel's tables, programs on disk.

Writes to no process and knows no command. Most readers need only the right to read the process's
`/proc` entries. Results are frozen dataclasses.
"""

OF_THE_KERNEL = ("/dev/", "/proc/", "/sys/")
"""Prefixes of paths at which the kernel answers instead of a file."""
