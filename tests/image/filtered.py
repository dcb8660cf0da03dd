"""`python filtered.py NAME PROGRAM ARGS`: a program under a filter of system calls (seccomp(2)).

`docker` refuses what Docker's default profile refuses a container without capabilities, on a kernel
of 4.8 or newer (there ptrace, process_vm_readv and kcmp are allowed). Its profile is a list of what
is allowed; this one is of what is refused, of those that a start could want. `NAME` may also be a
call, or `call:ARGUMENT`, whose first argument has that value: it is refused alone. `listener` takes
the one listener that a process can have, and refuses nothing.

x86-64. Sources: moby/profiles seccomp/default.json, July 2025; linux/filter.h; linux/seccomp.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

CALLS = {
    "write": 1, "mremap": 25, "ptrace": 101, "personality": 135, "pivot_root": 155, "prctl": 157,
    "mount": 165, "umount2": 166, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239,
    "add_key": 248, "request_key": 249, "keyctl": 250, "migrate_pages": 256, "unshare": 272,
    "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "seccomp": 317, "bpf": 321, "userfaultfd": 323,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "close_range": 436,
}  # fmt: skip
ALLOWED = ("write", "mremap", "process_vm_readv", "ptrace", "prctl", "seccomp", "close_range")
"""Calls of the table that the profile allows, or allows with some arguments."""

CLONE, CLONE3 = 56, 435
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS to CLONE_NEWNET

LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER, FIRST_ARGUMENT = 0, 16
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8


def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """A `struct sock_filter`."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def refuse(call: int, error: int = errno.EPERM) -> bytes:
    return step(JUMP_EQUAL, call, 0, 1) + step(RETURN, ERRNO | error)


def refuse_if(call: int, jump: int, argument: int, error: int) -> bytes:
    """By its first argument."""
    refused = step(JUMP_EQUAL, call, 0, 4) + step(LOAD, FIRST_ARGUMENT) + step(jump, argument, 0, 1)
    return refused + step(RETURN, ERRNO | error) + step(RETURN, ALLOW)


def docker() -> bytes:
    refused = b"".join(refuse(number) for name, number in CALLS.items() if name not in ALLOWED)
    clone = refuse_if(CLONE, JUMP_SET, NEW_NAMESPACES, errno.EPERM)
    return refuse(CLONE3, errno.ENOSYS) + refused + clone


def apply(name: str) -> None:
    """Put this process, and what it executes, under a filter."""
    call, _, argument = name.partition(":")
    if name == "docker":
        steps = docker()
    elif name == "listener":
        steps = b""
    elif argument:
        steps = refuse_if(CALLS[call], JUMP_EQUAL, int(argument), errno.EINVAL)
    else:
        steps = refuse(CALLS[call])
    whole = step(LOAD, NUMBER) + steps + step(RETURN, ALLOW)
    buffer = ctypes.create_string_buffer(whole, len(whole))
    program = struct.pack("<HxxxxxxQ", len(whole) // 8, ctypes.addressof(buffer))
    held = ctypes.create_string_buffer(program, len(program))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *(ctypes.c_ulong,) * 4]
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if name == "listener":
        words = (SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER)
        number = libc.syscall(CALLS["seccomp"], *words, ctypes.c_void_p(ctypes.addressof(held)))
        is_set = number >= 0
        os.set_inheritable(max(number, 0), True)
    else:
        words = (PR_SET_SECCOMP, SECCOMP_MODE_FILTER)
        is_set = libc.prctl(*words, ctypes.addressof(held), 0, 0) == 0
    if not is_set:
        raise OSError(ctypes.get_errno(), "no filter can be set")


if __name__ == "__main__":
    apply(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
