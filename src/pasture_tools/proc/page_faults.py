"""Page faults of processes as the kernel samples them: perf_event_open and its ring buffers.

One event for each CPU and process, so that later children are sampled too (`inherit` excludes one
event for all CPUs with a shared buffer). Every fault is a sample: software events need no counters
of the processor.

Source: perf_event_open(2); include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pasture.errors import NoPrivilege
from pasture.proc import privilege
from pasture.proc.os_page import OS_PAGE_BYTES

_CALL_NUMBERS = {"x86_64": 298, "aarch64": 241}
_SOFTWARE, _PAGE_FAULTS_MINOR = 1, 5
_IP, _TID, _TIME, _ADDR, _CALLCHAIN = 1, 2, 4, 8, 32
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 1, 1 << 5, 1 << 6
_EXCLUDE_CALLCHAIN_KERNEL = 1 << 21
_ATTRIBUTE_BYTES = 128
_SAMPLE_RECORD, _LOST_RECORD = 9, 2
_HEAD_OFFSET, _TAIL_OFFSET, _DATA_OFFSET, _DATA_SIZE = 1024, 1032, 1040, 1048
_BUFFER_BYTES = 1 << 20  # a power of two, and pages of any size
_CONTEXT_MARKERS = 0xFFFFFFFFFFFFF000
_CLOEXEC = 8

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Fault:
    # pid, tid: of the process and its thread.
    pid: int
    tid: int
    time_ns: int  # kernel's clock
    address: int  # address that was accessed
    instruction: int  # address of the instruction
    stack: tuple[int, ...]  # return addresses, innermost first, without the instruction itself


class FaultSampler:
    """Samples every minor fault of running processes, and of children that they fork meanwhile.

    Raises:
        NoPrivilege: the kernel does not let this user sample them.
    """

    def __init__(self, pids: tuple[int, ...]) -> None:
        self.lost = 0
        self.with_kernel = True
        self._buffers: list[_Buffer] = []
        try:
            for pid in pids:
                for cpu in sorted(os.sched_getaffinity(0) | set(range(os.cpu_count() or 1))):
                    try:
                        fd, with_kernel = _open(pid, cpu)
                    except ProcessLookupError:
                        break  # it has ended, as workers do
                    self._buffers.append(_Buffer(fd))
                    self.with_kernel &= with_kernel
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FaultSampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End sampling."""
        while self._buffers:
            self._buffers.pop().close()

    def read(self) -> list[Fault]:
        """Faults since the last call, in the order of time. `lost` counts missed faults."""
        found = []
        for buffer in self._buffers:
            for kind, body in buffer.records():
                if kind == _SAMPLE_RECORD:
                    found.append(parse_sample(body))
                elif kind == _LOST_RECORD:
                    self.lost += int.from_bytes(body[8:16], "little")
        return sorted(found, key=lambda fault: fault.time_ns)


def parse_sample(body: bytes) -> Fault:
    """A sample with instruction, thread, time, address and call chain."""
    instruction, pid, tid, time_ns, address, count = struct.unpack_from("<QIIQQQ", body)
    chain = struct.unpack_from(f"<{count}Q", body, 40)
    stack = [entry for entry in chain if entry < _CONTEXT_MARKERS]
    if stack and stack[0] == instruction:
        del stack[0]
    return Fault(pid, tid, time_ns, address, instruction, tuple(stack))


def _attribute(*, with_kernel: bool) -> bytes:
    flags = _INHERIT | _EXCLUDE_HV | _EXCLUDE_CALLCHAIN_KERNEL
    flags |= 0 if with_kernel else _EXCLUDE_KERNEL
    sample = _IP | _TID | _TIME | _ADDR | _CALLCHAIN
    head = struct.pack(
        "<IIQQQQQ",
        _SOFTWARE,
        _ATTRIBUTE_BYTES,
        _PAGE_FAULTS_MINOR,
        1,  # every fault
        sample,
        0,
        flags,
    )
    return head.ljust(_ATTRIBUTE_BYTES, b"\0")


def call_number(machine: str) -> int:
    """The number of perf_event_open(2) on this kind of machine; NoPrivilege if it is not known."""
    number = _CALL_NUMBERS.get(machine)
    if number is None:
        raise NoPrivilege(
            f"page faults cannot be sampled on {machine}",
            hint=f"this works on {' and '.join(sorted(_CALL_NUMBERS))}; do without recording",
        )
    return number


def _open(pid: int, cpu: int) -> tuple[int, bool]:
    """An event, and whether it includes the faults that the kernel takes for the process.

    Raises ProcessLookupError if the process has ended, NoPrivilege if the kernel refuses.
    """
    number = call_number(platform.machine())
    # Faults that the kernel takes for a process, as in read(), are for the privileged.
    for with_kernel in (True, False):
        attribute = ctypes.create_string_buffer(
            _attribute(with_kernel=with_kernel), _ATTRIBUTE_BYTES
        )
        fd: int = _libc.syscall(number, attribute, pid, cpu, -1, _CLOEXEC)
        if fd >= 0:
            return fd, with_kernel
    error = ctypes.get_errno()
    if error == errno.ESRCH:
        raise ProcessLookupError(error, os.strerror(error))
    raise NoPrivilege(
        f"the page faults of process {pid} cannot be sampled: {os.strerror(error)}",
        hint=privilege.hint(
            "CAP_PERFMON",
            "as root, or with kernel.perf_event_paranoid at 2 or less for processes of your "
            "own; in a container the system call perf_event_open must be allowed",
        ),
    )


class _Buffer:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        try:
            self._map = mmap.mmap(fd, OS_PAGE_BYTES + _BUFFER_BYTES, mmap.MAP_SHARED)
        except OSError as error:
            os.close(fd)
            raise NoPrivilege(
                f"memory for page-fault samples is missing: {error.strerror}",
                hint="raise kernel.perf_event_mlock_kb, or run as root",
            ) from None
        self._offset = self._word(_DATA_OFFSET) or OS_PAGE_BYTES
        self._size = self._word(_DATA_SIZE) or _BUFFER_BYTES

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)

    def _word(self, offset: int) -> int:
        return int.from_bytes(self._map[offset : offset + 8], "little")

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Type and body of each complete record; their space is then released."""
        head, tail = self._word(_HEAD_OFFSET), self._word(_TAIL_OFFSET)
        while tail < head:
            kind, _, size = struct.unpack("<IHH", self._bytes(tail, 8))
            yield kind, self._bytes(tail + 8, size - 8)
            tail += size
        self._map[_TAIL_OFFSET : _TAIL_OFFSET + 8] = tail.to_bytes(8, "little")

    def _bytes(self, position: int, count: int) -> bytes:
        start = position % self._size
        first = min(count, self._size - start)
        data = self._map[self._offset + start : self._offset + start + first]
        return data + self._map[self._offset : self._offset + count - first]
