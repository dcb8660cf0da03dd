"""RPython's own tests of its collectors on ours: what cannot pass stands in expected_failures.

Each line there names a test by file, class and name, and gives the reason. A test that is
listed and passes is a failure too, unless its reason begins with `at times`.
"""
import os

import tempfile

import py
import pytest

from rpython.config import translationoption

from collector import register

# All translations share one cache otherwise, and race in it.
translationoption.CACHE_DIR = tempfile.mkdtemp(prefix='cache.', dir=os.getcwd())

register.register('ours')

LIST = py.path.local(__file__).dirpath('expected_failures')


def expected_failures():
    reasons = {}
    for line in LIST.readlines(cr=0):
        if line and not line.startswith('#'):
            test, reason = line.split(None, 1)
            reasons[test] = reason
    return reasons


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    reasons = expected_failures()
    for item in items:
        name = '%s::%s::%s' % (item.fspath.purebasename, item.cls and item.cls.__name__,
                               item.name)
        if name in reasons:
            always = not reasons[name].startswith('at times')
            item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=always))
