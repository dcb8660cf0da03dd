"""What the collector does when the system refuses it something; pypy/check drives it.

    failures locked before|after|onfault   mlockall around a heap that is collected
    failures large                         arrays of 240 KB; a MemoryError is caught and reported
    failures medium                        arrays of 8 KB, that come out of the nursery
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
    kept = chain(20000)
    arrays = [[kept] * 1000 for _ in range(100)]
    rgc.collect()
    if when == 'after':
        lock(CURRENT)
    for i in range(4):
        chain(10000)
        arrays[i] = [kept] * 2000
        rgc.collect()
    if total(kept) != 199990000:
        return 1
    os.write(1, 'ok %d\n' % os.getpid())
    os.read(0, 1)
    return 0


def fill(node):
    return [[node] * (30000 + i) for i in range(20)]


def large():
    try:
        arrays = fill(chain(10))
    except MemoryError:
        os.write(1, 'MemoryError\n')
        os._exit(0)     # without its arenas the next collection could not but end it
        return 0
    rgc.collect()
    os.write(1, 'ok %d\n' % len(arrays))
    return 0


def medium():
    kept = chain(10)
    arrays = [[kept] * 1000 for _ in range(300)]
    rgc.collect()
    os.write(1, 'ok %d\n' % len(arrays))
    return 0


def entry_point(argv):
    if argv[1] == 'locked':
        return locked(argv[2])
    if argv[1] == 'large':
        return large()
    if argv[1] == 'medium':
        return medium()
    kept = chain(20000)
    rgc.collect()
    if total(kept) != 199990000:
        return 1
    os.write(1, 'ok\n')
    return 0
