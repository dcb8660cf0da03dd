"""`behind_boundary.py KIND PROGRAM ARGUMENT...`: a program behind a boundary of the kernel.

KIND is `user` (one without privileges; needs root), `namespace` (a mount namespace; root, or a user
namespace), `no-new-privileges`, `seccomp` (a filter that allows all), `no-memory-map` (a filter
that refuses PR_SET_MM_MAP), `no-new-code` (one that refuses to make memory executable), or
`capabilities` (one less; needs root).
"""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 38, 22, 24
SECCOMP_MODE_FILTER = 2
LOAD, IF_EQUAL, IF_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW = (RETURN, 0, 0, 0x7FFF0000)
SYS_MPROTECT, PROT_EXEC = 10, 4
SYS_PRCTL, PR_SET_MM, PR_SET_MM_MAP = 157, 35, 14
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
OTHER_USER = 65534


def check(result):
    if result < 0:
        sys.exit(f"the kernel refuses: {os.strerror(ctypes.get_errno())}")


def no_new_privileges():
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def install(*instructions):
    """A filter of seccomp(2)."""
    no_new_privileges()
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in instructions))
    program = struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code))
    filter_ = ctypes.create_string_buffer(program)
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0))


def seccomp():
    install(ALLOW)


def no_memory_map():
    install(
        (LOAD, 0, 0, 0),  # the number of the call
        (IF_EQUAL, 0, 5, SYS_PRCTL),
        (LOAD, 0, 0, 16),  # the first argument, and the second
        (IF_EQUAL, 0, 3, PR_SET_MM),
        (LOAD, 0, 0, 24),
        (IF_EQUAL, 0, 1, PR_SET_MM_MAP),
        (RETURN, 0, 0, 0x00050001),  # SECCOMP_RET_ERRNO, EPERM
        ALLOW,
    )


def no_new_code():
    install(
        (LOAD, 0, 0, 0),
        (IF_EQUAL, 0, 3, SYS_MPROTECT),
        (LOAD, 0, 0, 32),  # the third argument
        (IF_SET, 0, 1, PROT_EXEC),
        (RETURN, 0, 0, 0x00050001),
        ALLOW,
    )


def namespace():
    check(LIBC.unshare(CLONE_NEWNS if os.geteuid() == 0 else CLONE_NEWNS | CLONE_NEWUSER))


def capabilities():
    check(LIBC.prctl(PR_CAPBSET_DROP, 25, 0, 0, 0))  # CAP_SYS_TIME


def user():
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)


KINDS = {
    "user": user,
    "namespace": namespace,
    "no-new-privileges": no_new_privileges,
    "seccomp": seccomp,
    "no-memory-map": no_memory_map,
    "no-new-code": no_new_code,
    "capabilities": capabilities,
}

KINDS[sys.argv[1]]()
os.execv(sys.argv[2], sys.argv[2:])
