"""rpython/memory/test: programs in RPython's interpreter of low-level operations.

TestWrapped: the collector called by the interpreter. TestTransformed: the collector itself is
interpreted, after the transformation that adds its calls to the program.
"""
from rpython.memory.gctransform import shadowstack
from rpython.memory.test import test_incminimark_gc, test_incminimark_gc_cardmarking
from rpython.memory.test import test_transformed_gc
from rpython.translator.c import gc

from collector.outside_marks import OutsideMarksGC


class TestWrapped(test_incminimark_gc.TestIncrementalMiniMarkGC):
    GCClass = OutsideMarksGC


class TestWrappedWithCards(
        test_incminimark_gc_cardmarking.TestIncrementalMiniMarkGCCardMarking):
    GCClass = OutsideMarksGC


class TestTransformed(test_transformed_gc.TestIncrementalMiniMarkGC):

    class gcpolicy(gc.BasicFrameworkGcPolicy):

        class transformerclass(shadowstack.ShadowStackFrameworkGCTransformer):
            _stock = test_transformed_gc.TestIncrementalMiniMarkGC.gcpolicy.transformerclass
            GCClass = OutsideMarksGC
            GC_PARAMS = _stock.GC_PARAMS
            root_stack_depth = _stock.root_stack_depth
