"""`behind_boundary.py KIND PROGRAM ARGUMENT...`: a program behind a boundary of the kernel.

KIND is `user` (one without privileges; needs root), or `no-new-code` (a filter of system calls that
refuses to make memory executable).
"""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22
SECCOMP_MODE_FILTER = 2
LOAD, IF_EQUAL, IF_SET, RETURN = 0x20, 0x15, 0x45, 0x06
SYS_MPROTECT, PROT_EXEC = 10, 4
NO_NEW_CODE = (
    (LOAD, 0, 0, 0),  # the number of the call
    (IF_EQUAL, 0, 3, SYS_MPROTECT),
    (LOAD, 0, 0, 32),  # the third argument
    (IF_SET, 0, 1, PROT_EXEC),
    (RETURN, 0, 0, 0x00050001),  # SECCOMP_RET_ERRNO, EPERM
    (RETURN, 0, 0, 0x7FFF0000),
)
OTHER_USER = 65534


def check(result):
    if result < 0:
        sys.exit(f"the kernel refuses: {os.strerror(ctypes.get_errno())}")


def no_new_code():
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in NO_NEW_CODE))
    program = struct.pack("HxxxxxxQ", len(NO_NEW_CODE), ctypes.addressof(code))
    filter_ = ctypes.create_string_buffer(program)
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0))


def user():
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)


{"user": user, "no-new-code": no_new_code}[sys.argv[1]]()
os.execv(sys.argv[2], sys.argv[2:])
