"""Readers of running processes, from outside: /proc, the kernel's tables, programs on disk.

Nothing here writes to a process or knows a command. Most of it needs no more than the right
to read the process's `/proc` entries. What was read is a frozen dataclass.
"""

OF_THE_KERNEL = ("/dev/", "/proc/", "/sys/")
"""Beginnings of the paths of files that are no data: the kernel answers for them."""
