"""The programs of pypy/check in one: checked stress|failures ARGUMENT ..."""
from programs import failures, stress


def entry_point(argv):
    if argv[1] == 'stress':
        return stress.entry_point(argv[1:])
    return failures.entry_point(argv[1:])


def target(driver, args):
    return entry_point, None
