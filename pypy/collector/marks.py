"""Marks: which objects the running major collection has reached (marks.h has the design).

One table a process. `set` answers whether the object was unmarked until now.
"""
from rpython.rtyper.lltypesystem import lltype, llmemory

from collector.native import function


class _Model(object):
    """The table for addresses that are objects: the containers they lead to, by identity.

    It holds on to them, so that an identity is not used twice.
    """

    def __init__(self):
        self.forget()

    def forget(self):
        self.marked = {}
        self.prebuilt = []

    @staticmethod
    def container(address):
        return address._fixup().ptr._obj

    def set(self, address):
        container = self.container(address)
        if id(container) in self.marked:
            return 0
        self.marked[id(container)] = container
        return 1

    def test(self, address):
        return int(id(self.container(address)) in self.marked)

    def clear(self, address):
        self.marked.pop(id(self.container(address)), None)

    def note_prebuilt(self, address):
        self.prebuilt.append(address)

    def give_back(self):
        for address in self.prebuilt:
            self.clear(address)
        self.prebuilt = []


model = _Model()

set = function('pasture_marks_set', [llmemory.Address], lltype.Signed, model.set)
test = function('pasture_marks_test', [llmemory.Address], lltype.Signed, model.test)
clear = function('pasture_marks_clear', [llmemory.Address], lltype.Void, model.clear)
note_prebuilt = function('pasture_marks_note_prebuilt', [llmemory.Address], lltype.Void,
                         model.note_prebuilt)
reserve = function('pasture_marks_reserve', [llmemory.Address], lltype.Signed,
                   lambda address: 0)
give_back = function('pasture_marks_give_back', [], lltype.Void, model.give_back)
stray = function('pasture_marks_stray', [], lltype.Signed, lambda: 0)
