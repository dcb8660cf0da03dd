"""A fork server as many projects have one: loads, forks a process for each session, seals nothing.

`image_fork_server.py COUNT`: each session prints its pid when it is done with its work. The end
of standard input ends all.
"""

import os
import signal
import sys

from image_session import work


def main() -> None:
    """Fork the sessions, and wait."""
    children = []
    for _ in range(int(sys.argv[1])):
        pid = os.fork()
        if pid == 0:
            work()
            os.write(1, f"{os.getpid()}\n".encode())
            signal.pause()
        children.append(pid)
    sys.stdin.read()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


main()
