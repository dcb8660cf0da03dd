"""rpython/memory/gc/test: the collector called method by method, untranslated."""
from rpython.memory.gc.test import test_direct, test_object_pinning, test_rawrefcount
from rpython.memory.gc.test import test_inspector

from collector.outside_marks import OutsideMarksGC

# A fixture of the tests since PyPy 7; fixtures are looked up in the module that runs them.
debuglog = getattr(test_direct, 'debuglog', None)


class TestSimple(test_direct.TestIncrementalMiniMarkGCSimple):
    GCClass = OutsideMarksGC


class TestFull(test_direct.TestIncrementalMiniMarkGCFull):
    GCClass = OutsideMarksGC


class TestPinning(test_object_pinning.TestIncminimark):
    GCClass = OutsideMarksGC


class TestRawRefCount(test_rawrefcount.TestRawRefCount):
    GCClass = OutsideMarksGC


class TestInspector(test_inspector.TestMiniMarkGCSimple):
    GCClass = OutsideMarksGC
