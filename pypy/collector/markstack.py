"""The mark stack: marked objects that are still to be traced (markstack.h has the design)."""
from rpython.rtyper.lltypesystem import lltype, llmemory

from collector.native import function

model = []


def _next():
    return model.pop() if model else llmemory.NULL


push = function('pasture_stack_push', [llmemory.Address], lltype.Void,
                lambda address: model.append(address))
next = function('pasture_stack_next', [], llmemory.Address, _next)
length = function('pasture_stack_length', [], lltype.Signed, lambda: len(model))
peek = function('pasture_stack_peek', [lltype.Signed], llmemory.Address,
                lambda number: model[number])
release = function('pasture_stack_release', [], lltype.Void, lambda: None)
