"""An old heap, and a forked child that collects it.

    heap MEGABYTES COLLECTIONS

The heap is a row of records: each a small instance with a string of its own and, every
eighth, a list of the records before it. Says on standard output, a line each:

    heap BYTES             bytes asked for while building
    child PID              the child, before it has collected
    first MICROSECONDS     CPU time of the child's first full collection
    steady MICROSECONDS    the least of the others
    end                    the child's checksum was that of its parent

The child waits for a byte on standard input after each line of its own.
"""
import os
import time

from rpython.rlib import rgc


class Record(object):
    def __init__(self, number, before):
        self.number = number
        self.name = 'record number %d' % number
        self.before = before
        self.group = None


def build(megabytes):
    head = None
    group = []
    size = 0
    number = 0
    while size < megabytes * 1000000:
        head = Record(number, head)
        size += 40 + 16 + 24
        group.append(head)
        if number & 7 == 7:
            head.group = group
            group = []
            size += 24 + 16 + 64
        number += 1
    return head, size


def checksum(head):
    total = 0
    while head is not None:
        total += len(head.name) + head.number
        if head.group is not None:
            total += len(head.group)
        head = head.before
    return total


def say(line):
    os.write(1, line + '\n')


def collect():
    start = time.clock()
    rgc.collect()
    return int((time.clock() - start) * 1000000)


def child(head, expected, collections):
    say('child %d' % os.getpid())
    os.read(0, 1)
    say('first %d' % collect())
    os.read(0, 1)
    best = collect()
    for _ in range(collections - 1):
        took = collect()
        if took < best:
            best = took
    say('steady %d' % best)
    os.read(0, 1)
    say('end' if checksum(head) == expected else 'corrupt')


def entry_point(argv):
    head, size = build(int(argv[1]))
    expected = checksum(head)
    rgc.collect()
    rgc.collect()
    say('heap %d' % size)
    pid = os.fork()
    if pid == 0:
        child(head, expected, int(argv[2]))
        os._exit(0)
    os.waitpid(pid, 0)
    return 0 if checksum(head) == expected else 1
