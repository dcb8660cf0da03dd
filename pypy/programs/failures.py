"""What the collector does when the system refuses it something; pypy/check drives it.

    failures locked before|after|onfault   mlockall around a heap of 30 MB that is collected
    failures large                         large objects; a MemoryError is caught and told
    failures small                         small objects alone

Says `ok` and, for `locked`, how often it collected.
"""
import os

from rpython.rlib import rgc
from rpython.rtyper.lltypesystem import lltype, rffi
from rpython.translator.tool.cbuild import ExternalCompilationInfo

CURRENT, FUTURE, ON_FAULT = 1, 2, 4

mlockall = rffi.llexternal('mlockall', [rffi.INT], rffi.INT,
                           compilation_info=ExternalCompilationInfo(includes=['sys/mman.h']))


class Node(object):
    def __init__(self, number, before):
        self.number = number
        self.before = before


def chain(length):
    node = None
    for number in range(length):
        node = Node(number, node)
    return node


def total(node):
    result = 0
    while node is not None:
        result += node.number
        node = node.before
    return result


def lock(flags):
    if rffi.cast(lltype.Signed, mlockall(rffi.cast(rffi.INT, flags))) != 0:
        os.write(1, 'no lock\n')
        os._exit(77)


def locked(when):
    if when == 'before':
        lock(CURRENT | FUTURE)
    elif when == 'onfault':
        lock(CURRENT | FUTURE | ON_FAULT)
    kept = chain(1000000)
    arrays = [[None] * 1000 for _ in range(100)]
    rgc.collect()
    if when == 'after':
        lock(CURRENT)
    for i in range(4):
        chain(100000)
        arrays[i] = [None] * 2000
        rgc.collect()
    if total(kept) != 499999500000:
        return 1
    os.write(1, 'ok %d\n' % os.getpid())
    os.read(0, 1)
    return 0


def large():
    arrays = []
    try:
        for i in range(200):
            arrays.append([None] * (30000 + i))
    except MemoryError:
        os.write(1, 'MemoryError\n')
        arrays = []
    rgc.collect()
    os.write(1, 'ok\n')
    return 0


def entry_point(argv):
    if argv[1] == 'locked':
        return locked(argv[2])
    if argv[1] == 'large':
        return large()
    kept = chain(100000)
    rgc.collect()
    if total(kept) != 4999950000:
        return 1
    os.write(1, 'ok\n')
    return 0
