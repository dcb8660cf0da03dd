"""The measured programs in one, because a translation takes longer than a measurement.

    measured heap|allocation|requests ARGUMENT ...
"""
from programs import allocation, heap, requests


def entry_point(argv):
    program = argv[1]
    arguments = argv[1:]
    if program == 'heap':
        return heap.entry_point(arguments)
    if program == 'allocation':
        return allocation.entry_point(arguments)
    return requests.entry_point(arguments)


def target(driver, args):
    return entry_point, None
