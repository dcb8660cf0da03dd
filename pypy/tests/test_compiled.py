"""rpython/translator/c/test/test_newgc: programs compiled to C with the collector."""
from rpython.translator.c.test import test_newgc


class TestCompiled(test_newgc.TestIncrementalMiniMarkGC):
    pass


class TestCompiledWithTaggedPointers(test_newgc.TestIncrementalMiniMarkGCMostCompact):
    pass
