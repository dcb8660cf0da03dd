"""Samples of page faults, as the kernel writes them."""

import struct

from pasture_tools.proc.page_faults import parse_sample


def test_a_sample_of_perf_gives_the_address_and_the_callers() -> None:
    chain = (0xFFFFFFFFFFFFFE00, 0x1000, 0x2000, 0x3000)
    body = struct.pack("<QIIQQQ", 0x1000, 7, 8, 99, 0xABC0, len(chain)) + struct.pack("<4Q", *chain)
    fault = parse_sample(body)
    assert (fault.pid, fault.tid, fault.time_ns, fault.address) == (7, 8, 99, 0xABC0)
    assert fault.stack == (0x2000, 0x3000)
