"""Starts a server with two listeners open: at the numbers of systemd, or at those of fd://N.

The first is what the server's command binds; the port of the second is printed.
"""

import os
import socket
import sys

kind, *command = sys.argv[1:]
at = command.index("--bind")
host, _, port = command[at + 1].rpartition(":")
listeners = [socket.create_server((host, int(number))) for number in (port, 0)]
print("second port", listeners[1].getsockname()[1], flush=True)
copies = [os.dup(listener.fileno()) for listener in listeners]
numbers = (3, 4) if kind == "systemd" else (12, 11)
for number, copy in zip(numbers, copies, strict=True):
    os.dup2(copy, number)
if kind == "systemd":
    os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
else:
    command[at : at + 2] = [word for number in numbers for word in ("--bind", f"fd://{number}")]
os.execv(command[0], command)
