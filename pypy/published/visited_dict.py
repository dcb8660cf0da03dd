"""MiniMarkGC with GCFLAG_VISITED of old objects in a hash dictionary.

The dictionary is RPython's AddressDict; it is cleared after each major collection. All else
is minimark's own, as in the published work: its pages with headers inside, its lists that are
rebuilt. Rebuilt from the description in REFERENCE.md's source; the authors' code is not known.

Young large objects keep the flag in their header: minor collections use it.
"""
from rpython.memory.gc import minimark
from rpython.memory.gc.minimark import GCFLAG_FINALIZATION_ORDERING, GCFLAG_NO_HEAP_PTRS
from rpython.memory.gc.minimark import GCFLAG_TRACK_YOUNG_PTRS, GCFLAG_VISITED
from rpython.rlib.debug import ll_assert
from rpython.rtyper.lltypesystem import llgroup, llmemory
from rpython.rtyper.lltypesystem.lloperation import llop

from collector import tracing

Stock = minimark.MiniMarkGC


class VisitedDictGC(Stock):

    def setup(self):
        self.visited = self.AddressDict()
        Stock.setup(self)

    def visit(self, obj):
        tid = self.header(obj).tid
        if tid & GCFLAG_NO_HEAP_PTRS:
            return
        known = self.visited.length()
        self.visited.add(obj)       # one look-up, not two
        if self.visited.length() == known:
            return
        if self.has_gcptr(llop.extract_ushort(llgroup.HALFWORD, tid)):
            self._trace_and_collect(obj, None)

    _trace_and_collect = tracing.caller_of('_collect_ref_rec')

    def _free_if_unvisited(self, hdr):
        obj = hdr + self.gcheaderbuilder.size_gc_header
        return not self.visited.contains(obj)

    def free_unvisited_rawmalloc_objects(self):
        looked_at = self.old_rawmalloced_objects
        self.old_rawmalloced_objects = self.AddressStack()
        while looked_at.non_empty():
            obj = looked_at.pop()
            if self.visited.contains(obj):
                self.old_rawmalloced_objects.append(obj)
            else:
                self.free_rawmalloced_object_if_unvisited(obj)
        looked_at.delete()

    def execute_finalizers(self):
        # The last act of a major collection.
        self.visited.clear()
        Stock.execute_finalizers(self)

    def deal_with_old_objects_with_destructors(self):
        surviving = self.AddressStack()
        while self.old_objects_with_destructors.non_empty():
            obj = self.old_objects_with_destructors.pop()
            if self.visited.contains(obj):
                surviving.append(obj)
            else:
                self.call_destructor(obj)
        self.old_objects_with_destructors.delete()
        self.old_objects_with_destructors = surviving

    def deal_with_objects_with_finalizers(self):
        # The base class asks the header of what has a finalizer: show it there for a moment.
        self.old_objects_with_finalizers.foreach(self._show_if_visited, None)
        Stock.deal_with_objects_with_finalizers(self)
        self.old_objects_with_finalizers.foreach(self._hide, None)

    def _show_if_visited(self, obj, ignored):
        if self._is_object(obj) and self.visited.contains(obj):
            self.header(obj).tid |= GCFLAG_VISITED

    def _hide(self, obj, ignored):
        if self._is_object(obj):
            self.header(obj).tid &= ~GCFLAG_VISITED

    def _is_object(self, entry):
        # The list alternates objects and numbers of queues, which are -1 or small.
        return llmemory.cast_adr_to_int(entry) > 4096

    def _finalization_state(self, obj):
        ordering = (self.header(obj).tid & GCFLAG_FINALIZATION_ORDERING) != 0
        if self.visited.contains(obj):
            return 2 if ordering else 3
        return 1 if ordering else 0

    def invalidate_old_weakrefs(self):
        surviving = self.AddressStack()
        while self.old_objects_with_weakrefs.non_empty():
            obj = self.old_objects_with_weakrefs.pop()
            if not self.visited.contains(obj):
                continue
            offset = self.weakpointer_offset(self.get_type_id(obj))
            target = (obj + offset).address[0]
            if self.visited.contains(target):
                surviving.append(obj)
            else:
                (obj + offset).address[0] = llmemory.NULL
        self.old_objects_with_weakrefs.delete()
        self.old_objects_with_weakrefs = surviving

    def debug_check_object(self, obj):
        ll_assert(not self.is_in_nursery(obj), "object in nursery after collection")
        if self.has_gcptr(self.get_type_id(obj)):
            ll_assert(self.header(obj).tid & GCFLAG_TRACK_YOUNG_PTRS != 0,
                      "missing GCFLAG_TRACK_YOUNG_PTRS")
