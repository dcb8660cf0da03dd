"""execnet's connection of a worker, over one end of a pair of sockets.

The session has been collected, so the source that the controller sends is not executed: the first
task is the rest of the session.
"""

from __future__ import annotations

import os
import socket
import threading
from queue import SimpleQueue
from typing import Any

from execnet import gateway_base


class SocketIO:
    """execnet's view of one end of a pair of sockets."""

    def __init__(self, end: socket.socket, execmodel: gateway_base.ExecModel) -> None:
        self.execmodel = execmodel
        self.lock = threading.Lock()  # the thread that receives answers, too
        self._socket = end
        self._file = end.makefile("rb")
        self._diverted: int | None = None

    def read(self, numbytes: int, /) -> bytes:
        data = self._file.read(numbytes)
        if len(data) < numbytes:
            raise EOFError(f"expected {numbytes} bytes, got {len(data)}")
        return data

    def write(self, data: bytes, /) -> None:
        with self.lock:
            if self._diverted is None:
                self._socket.sendall(data)
                return
            left = memoryview(data)
            while left:
                left = left[os.write(self._diverted, left) :]

    def divert(self, descriptor: int) -> None:
        """Write to another end from now on."""
        self._diverted = descriptor

    def close_read(self) -> None:
        self._close(socket.SHUT_RD)

    def close_write(self) -> None:
        self._close(socket.SHUT_WR)

    def _close(self, how: int) -> None:
        try:
            self._socket.shutdown(how)
        except OSError:
            pass  # the other end is gone

    def wait(self) -> int | None:
        return None

    def kill(self) -> None: ...


class _Session:
    """The one task of a worker, in the place of execnet's pool of tasks."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def trigger_shutdown(self) -> None: ...

    def waitall(self, timeout: float | None = None) -> bool:
        return self.ended.wait(timeout)


class Gateway(gateway_base.WorkerGateway):
    """execnet's gateway of a worker, whose first task is the session that has been collected."""

    def __init__(self, io: SocketIO, id: str) -> None:
        super().__init__(io=io, id=id, _startcount=2)
        self._execpool: Any = _Session()
        self.tasks: SimpleQueue[gateway_base.Channel | None] = SimpleQueue()
        self._busy = False
        self._initreceive()

    def _local_schedulexec(self, channel: gateway_base.Channel, sourcetask: bytes) -> None:
        if self._busy:
            channel.close(gateway_base.MAIN_THREAD_ONLY_DEADLOCK_TEXT)
            return
        self._busy = True
        self.tasks.put(channel)

    def _terminate_execution(self) -> None:
        self.tasks.put(None)
        super()._terminate_execution()

    def end(self) -> None:
        self._execpool.ended.set()
        self.join()
