"""IncrementalMiniMarkGC, PyPy's default collector, with its marks outside the objects.

What it inherits: the nursery, minor collections, card marking, pinning, shadows, thresholds,
the states of a major collection and the steps it is cut into, finalization order, and all
that the JIT and cpyext expect. What it replaces, so that a major collection writes to no
surviving object and to few other pages:

  GCFLAG_VISITED of an old object   a bit in a table keyed by address         marks.h
  objects_to_trace                  a stack that is given back                markstack.h
  ArenaCollection                   pages with nothing in them but objects    pages.py
  lists rebuilt by each collection  lists that lose entries in place          lists.py
  nothing known of forks            this file, _notice_fork()

GCFLAG_VISITED in a header remains for pinned objects, which live in the nursery.

A marked object is black, or gray and on the mark stack. An unmarked one is white, or gray
and on one of the two lists of the base class, objects_to_trace (roots) and
more_objects_to_trace (changed since they were traced). Objects are marked when they are
pushed, so that each is pushed once; the base class marks when it pops.

Knobs, in the environment, beside those of incminimark.py:

 PASTURE_GC_KEEP_INHERITED  If set to 1, a forked child never frees a large object from
                            before the fork. Freeing writes to the object's page, to its
                            neighbours' and to the lists of malloc; kept, these pages stay
                            shared. The price: what the child drops of its parent's large
                            objects is never used again, for the child's life; it is
                            neither counted by PYPY_GC_MAX. Right for workers that live in
                            what they inherited, wrong for a process that forks once to
                            become a daemon and then replaces its heap. Default: 0.

 PASTURE_GC_FILL_SHARED     If set to 1, a forked child fills half-empty pages that it
                            shares with its parent, as the stock collector does. Filling a
                            page that is partly free costs a private copy of the whole
                            page; a new page costs what it holds. The price of not filling:
                            free blocks in pages from before the fork lie idle until the
                            page is empty or the parent has gone. Default: 0.
"""
from rpython.memory.gc import env, incminimark
from rpython.memory.gc.incminimark import (
    GCFLAG_FINALIZATION_ORDERING, GCFLAG_IGNORE_FINALIZER, GCFLAG_NO_HEAP_PTRS, GCFLAG_PINNED,
    GCFLAG_TRACK_YOUNG_PTRS, GCFLAG_VISITED, STATE_MARKING, STATE_SCANNING, STATE_SWEEPING)
from rpython.memory.gc.minimarkpage import out_of_memory
from rpython.memory.support import DEFAULT_CHUNK_SIZE, copy_without_null_values
from rpython.memory.support import get_chunk_manager
from rpython.rlib.debug import ll_assert
from rpython.rlib.objectmodel import we_are_translated
from rpython.rtyper.lltypesystem import lltype, llmemory, llgroup, rffi
from rpython.rtyper.lltypesystem.lloperation import llop
from rpython.rtyper.lltypesystem.llmemory import raw_malloc_usage

from collector import lists, marks, markstack, process, tracing
from collector.native import CHECK_BUILD
from collector.pages import PageStore

Stock = incminimark.IncrementalMiniMarkGC


class OutsideMarksGC(Stock):

    def __init__(self, config, chunk_size=DEFAULT_CHUNK_SIZE, ArenaCollectionClass=None, **kwds):
        "NOT_RPYTHON"
        Stock.__init__(self, config, chunk_size=chunk_size,
                       ArenaCollectionClass=ArenaCollectionClass or PageStore, **kwds)
        self.uses_page_store = ArenaCollectionClass is None
        self.chunk_size = chunk_size
        self.unused_chunks = get_chunk_manager(chunk_size)[0]
        self.process_id = 0
        self.inherited_from = 0     # the parent whose heap is shared; 0: none
        self.keep_inherited = False
        self.fill_shared = False
        self.large_to_inherit = False
        self.rrc_dead_in_dict = 0
        marks.model.forget()
        del markstack.model[:]

    def setup(self):
        self.process_id = process.own_id()
        self.inherited_large = self.AddressStack()
        Stock.setup(self)

    def post_setup(self):
        Stock.post_setup(self)
        self.keep_inherited = env.read_uint_from_env('PASTURE_GC_KEEP_INHERITED') != 0
        self.fill_shared = env.read_uint_from_env('PASTURE_GC_FILL_SHARED') != 0
        if CHECK_BUILD and not self.DEBUG:
            self.DEBUG = 1

    # ----- marking

    def _mark_and_push(self, root, ignored):
        obj = root.address[0]
        if not self.is_in_nursery(obj):     # else it is pinned, and no business of ours
            if marks.set(obj):
                markstack.push(obj)
    _mark_and_push._always_inline_ = True
    _trace_and_push = tracing.caller_of('_mark_and_push')
    _push_references = tracing.push_references

    def visit_all_objects_step(self, size_to_track):
        """Traces objects of about `size_to_track` bytes; returns what is left of that.

        When it stops early, objects_to_trace is not empty: that is how the base class knows
        that the marking goes on.
        """
        while True:
            obj = markstack.next()
            if not obj:
                if not self.objects_to_trace.non_empty():
                    return size_to_track
                obj = self.objects_to_trace.pop()
                ll_assert(not self.is_in_nursery(obj), "nursery object in 'objects_to_trace'")
                if not marks.set(obj):
                    continue
            size_to_track -= self._trace_marked(obj)
            if size_to_track < 0 or self.TEST_VISIT_SINGLE_STEP:
                obj = markstack.next()
                if obj:
                    marks.clear(obj)
                    self.objects_to_trace.append(obj)
                return 0

    def _trace_marked(self, obj):
        """Returns the object's size in bytes, with its header."""
        hdr = self.header(obj)
        tid = hdr.tid
        ll_assert((tid & GCFLAG_PINNED) == 0, "pinned object in 'objects_to_trace'")
        if tid & GCFLAG_NO_HEAP_PTRS:
            # It points to no heap object, and is on no list that would clear its mark.
            marks.note_prebuilt(obj)
            return 0
        if self.has_gcptr(llop.extract_ushort(llgroup.HALFWORD, tid)):
            # The write barrier needs this flag on black objects. The minor collection just
            # before has set it as a rule; then nothing is written.
            if (tid & GCFLAG_TRACK_YOUNG_PTRS) == 0:
                hdr.tid = tid | GCFLAG_TRACK_YOUNG_PTRS
            self._trace_and_push(obj, None)
        size_gc_header = self.gcheaderbuilder.size_gc_header
        return raw_malloc_usage(size_gc_header + self.get_size(obj))
    _trace_marked._always_inline_ = True

    def visit(self, obj):
        if not marks.set(obj):
            return 0
        return self._trace_marked(obj)

    # ----- what minor collections do to marks while the marking goes on

    def _add_to_more_objects_to_trace(self, obj, ignored):
        ll_assert(not self.is_in_nursery(obj), "unexpected nursery obj here")
        marks.clear(obj)
        self.more_objects_to_trace.append(obj)

    def _add_to_more_objects_to_trace_if_black(self, obj, ignored):
        if marks.test(obj):
            self._add_to_more_objects_to_trace(obj, ignored)

    def _trace_drag_out1_marking_phase(self, root):
        self._trace_drag_out(root, llmemory.NULL)
        obj = root.address[0]
        if (self.header(obj).tid & GCFLAG_PINNED) == 0 and not marks.test(obj):
            self.more_objects_to_trace.append(obj)

    def collect_cardrefs_to_nursery(self):
        # The base class turns these objects from black to gray by their header.
        if self.gc_state == STATE_MARKING:
            self.old_objects_with_cards_set.foreach(self._clear_mark, None)
        Stock.collect_cardrefs_to_nursery(self)

    def _clear_mark(self, obj, ignored):
        marks.clear(obj)

    def record_pinned_object_with_shadow(self, obj, new_shadow_object_dict):
        obj = obj + self.gcheaderbuilder.size_gc_header
        shadow = self.nursery_objects_shadows.get(obj)
        if shadow != llmemory.NULL:
            # A mark keeps it over the sweep. The last minor collection before the sweep runs
            # in the state MARKING; a mark set later might outlive the sweep.
            if self.gc_state == STATE_MARKING:
                marks.set(shadow)
            new_shadow_object_dict.setitem(obj, shadow)

    # ----- the steps of a major collection

    def _minor_collection(self):
        self._notice_fork()
        Stock._minor_collection(self)

    def major_collection_step(self, reserving_size=0):
        before = self.gc_state
        try:
            return Stock.major_collection_step(self, reserving_size)
        finally:
            if before != self.gc_state:
                if before == STATE_MARKING:
                    markstack.release()
                elif before == STATE_SWEEPING:
                    if CHECK_BUILD and we_are_translated():
                        ll_assert(marks.stray() == 0, "marks are left after the sweep")
                    marks.give_back()

    def _free_if_unvisited(self, hdr):
        # For page stores that sweep object by object.
        obj = hdr + self.gcheaderbuilder.size_gc_header
        if marks.test(obj):
            marks.clear(obj)
            return False
        return True

    def _reset_gcflag_visited(self, obj, ignored):
        marks.clear(obj)

    def _sweep_old_objects_pointing_to_pinned(self, obj, new_list):
        if marks.test(obj):
            new_list.append(obj)

    # ----- large objects

    def start_free_rawmalloc_objects(self):
        """Begins the sweep of the list in place.

        The base class takes raw_malloc_might_sweep for the objects still to be looked at;
        here it holds one entry as long as there are any.
        """
        ll_assert(not self.raw_malloc_might_sweep.non_empty(),
                  "raw_malloc_might_sweep must be empty")
        # Both sweeps begin now: what is added while they run has no mark, and lives.
        self.large_sweep = lists.StackSweep(self.inherited_large, self.chunk_size)
        self.large_sweep_inherited = True
        self.own_large_sweep = lists.StackSweep(self.old_rawmalloced_objects, self.chunk_size)
        if self.large_sweep.more() or self.own_large_sweep.more():
            self.raw_malloc_might_sweep.append(self.singleaddr)
        else:
            self.large_sweep.delete()
            self.own_large_sweep.delete()

    def free_unvisited_rawmalloc_objects_step(self, nobjects):
        if self.large_sweep_inherited and not self.large_sweep.more():
            self.large_sweep.delete()
            self.large_sweep = self.own_large_sweep
            self.large_sweep_inherited = False
        sweep = self.large_sweep
        while sweep.more() and nobjects > 0:
            obj = sweep.entry()
            nobjects -= 1
            if marks.test(obj):
                marks.clear(obj)
                sweep.keep()
            else:
                sweep.drop()
                self._free_large(obj)
        if not sweep.more() and not self.large_sweep_inherited:
            self.raw_malloc_might_sweep.pop()
            sweep.delete()
        return nobjects

    def _free_large(self, obj):
        if self.large_sweep_inherited and self.keep_inherited:
            size_gc_header = self.gcheaderbuilder.size_gc_header
            size = raw_malloc_usage(size_gc_header + self.get_size(obj))
            self.rawmalloced_total_size -= min(rffi.r_uint(size), self.rawmalloced_total_size)
        else:
            # No flag set: it frees.
            self.free_rawmalloced_object_if_unvisited(obj, GCFLAG_VISITED)

    def external_malloc(self, typeid, length, alloc_young):
        obj = Stock.external_malloc(self, typeid, length, alloc_young)
        if marks.reserve(obj) != 0:
            # It is on the lists already, and dies there.
            raise MemoryError("cannot mark large object")
        return obj

    def _malloc_out_of_nursery_nonsmall(self, totalsize):
        result = Stock._malloc_out_of_nursery_nonsmall(self, totalsize)
        if marks.reserve(result) != 0:
            out_of_memory("out of memory: no room for the marks of a large object")
        return result

    # ----- forks

    def _notice_fork(self):
        """Called where nothing has been copied out of the nursery since the last collection.

        The parent goes on as before: if a process that forks all the time took its pages for
        shared, it would never fill one again.
        """
        own_id = process.own_id()
        if own_id != self.process_id:
            self.inherited_from = self.process_id
            self.process_id = own_id
            if not self.fill_shared and self.uses_page_store:
                self.ac.share()
            self.large_to_inherit = self.keep_inherited
        if self.large_to_inherit and self.gc_state != STATE_SWEEPING:
            self.large_to_inherit = False
            self._inherit_large()
        if self.inherited_from != 0 and self.gc_state == STATE_SCANNING:
            if process.parent_id() != self.inherited_from:
                self.inherited_from = 0
                if self.uses_page_store:
                    self.ac.share_no_more()
                self._disinherit_large()

    def _inherit_large(self):
        if not self.inherited_large.non_empty():
            empty = self.inherited_large
            self.inherited_large = self.old_rawmalloced_objects
            self.old_rawmalloced_objects = empty
        else:
            while self.old_rawmalloced_objects.non_empty():
                self.inherited_large.append(self.old_rawmalloced_objects.pop())

    def _disinherit_large(self):
        while self.inherited_large.non_empty():
            self.old_rawmalloced_objects.append(self.inherited_large.pop())

    # ----- lists that lose what died

    def invalidate_old_weakrefs(self):
        lists.retain(self.old_objects_with_weakrefs, self.chunk_size, self._keep_weakref, None)

    def _keep_weakref(self, obj, ignored):
        if not marks.test(obj):
            return False
        offset = self.weakpointer_offset(self.get_type_id(obj))
        target = (obj + offset).address[0]
        ll_assert((self.header(target).tid & GCFLAG_NO_HEAP_PTRS) == 0,
                  "registered old weakref should not point to a NO_HEAP_PTRS obj")
        if marks.test(target) and (self.header(target).tid & GCFLAG_FINALIZATION_ORDERING) == 0:
            return True
        (obj + offset).address[0] = llmemory.NULL
        return False

    def deal_with_old_objects_with_destructors(self):
        lists.retain(self.old_objects_with_destructors, self.chunk_size,
                     self._keep_or_destroy, None)

    def _keep_or_destroy(self, obj, ignored):
        if marks.test(obj):
            return True
        self.call_destructor(obj)
        return False

    def deal_with_objects_with_finalizers(self):
        """The order is that of the base class; see its documentation of finalizer-order."""
        self.tmpstack = self.AddressStack()
        self.finalizer_pending = self.AddressStack()
        dying = self.AddressDeque()
        lists.retain_pairs(self.old_objects_with_finalizers, self.chunk_size,
                           self.unused_chunks, self._keep_finalizer, dying)
        self.invalidate_old_weakrefs()
        while dying.non_empty():
            obj = dying.popleft()
            queue_number = dying.popleft()
            state = self._finalization_state(obj)
            ll_assert(state >= 2, "unexpected finalization state < 2")
            if state == 2:
                self.mark_finalizer_to_run(rffi.cast(lltype.Signed, queue_number), obj)
                self._recursively_bump_finalization_state_from_2_to_3(obj)
            else:
                self.old_objects_with_finalizers.append(obj)
                self.old_objects_with_finalizers.append(queue_number)
        self.tmpstack.delete()
        self.finalizer_pending.delete()
        dying.delete()

    def _keep_finalizer(self, obj, queue_number, dying):
        ll_assert(self._finalization_state(obj) != 1, "bad finalization state 1")
        if self.header(obj).tid & GCFLAG_IGNORE_FINALIZER:
            return False
        if marks.test(obj):
            return True
        dying.append(obj)
        dying.append(queue_number)
        pending = self.finalizer_pending
        pending.append(obj)
        while pending.non_empty():
            reached = pending.pop()
            state = self._finalization_state(reached)
            if state == 0:
                self._bump_finalization_state_from_0_to_1(reached)
                self._push_references(reached, pending)
            elif state == 2:
                self._recursively_bump_finalization_state_from_2_to_3(reached)
        self._recursively_bump_finalization_state_from_1_to_2(obj)
        return False

    def _finalization_state(self, obj):
        ordering = (self.header(obj).tid & GCFLAG_FINALIZATION_ORDERING) != 0
        if marks.test(obj):
            return 2 if ordering else 3
        return 1 if ordering else 0

    def rrc_major_collection_free(self):
        ll_assert(self.rrc_p_dict_nurs.length() == 0, "p_dict_nurs not empty 2")
        lists.retain(self.rrc_p_list_old, self.chunk_size, self._keep_linked, True)
        lists.retain(self.rrc_o_list_old, self.chunk_size, self._keep_linked, False)
        # A dead object's entry leads to NULL. Old objects do not move: the rest is right.
        if self.rrc_dead_in_dict * 2 > self.rrc_p_dict.length():
            smaller = copy_without_null_values(self.rrc_p_dict)
            self.rrc_p_dict.delete()
            self.rrc_p_dict = smaller
            self.rrc_dead_in_dict = 0

    def _keep_linked(self, pyobject, in_dict):
        obj = llmemory.cast_int_to_adr(self._pyobj(pyobject).ob_pypy_link)
        if self.header(obj).tid & GCFLAG_NO_HEAP_PTRS or marks.test(obj):
            return True
        if in_dict:
            self.rrc_p_dict.setitem(obj, llmemory.NULL)
            self.rrc_dead_in_dict += 1
        self._rrc_free(pyobject)
        return False

    # ----- checks; PYPY_GC_DEBUG turns them on, a check build always has them

    def debug_check_consistency(self):
        if self.DEBUG:
            if self.gc_state == STATE_MARKING:
                self._debug_gray = self.AddressDict()
                number = markstack.length() - 1
                while number >= 0:
                    self._debug_gray.add(markstack.peek(number))
                    number -= 1
                Stock.debug_check_consistency(self)
                self._debug_gray.delete()
            else:
                Stock.debug_check_consistency(self)

    def debug_check_object(self, obj):
        Stock.debug_check_object(self, obj)
        if CHECK_BUILD and we_are_translated() and not self.is_in_nursery(obj):
            if self.uses_page_store:
                self.ac.debug_check_block(obj, raw_malloc_usage(self.get_size(obj)))

    def _debug_check_object_marking(self, obj):
        tid = self.header(obj).tid
        if marks.test(obj) and not tid & GCFLAG_NO_HEAP_PTRS and not self._debug_gray.contains(obj):
            self._check_references(obj, None)
            if self.has_gcptr(self.get_type_id(obj)):
                ll_assert(tid & GCFLAG_TRACK_YOUNG_PTRS != 0,
                          "black object without GCFLAG_TRACK_YOUNG_PTRS")

    def _debug_check_not_white(self, root, ignored):
        obj = root.address[0]
        ll_assert(marks.test(obj) != 0 or
                  self._debug_objects_to_trace_dict1.contains(obj) or
                  self._debug_objects_to_trace_dict2.contains(obj) or
                  self.header(obj).tid & GCFLAG_NO_HEAP_PTRS != 0 or
                  self._is_pinned(obj), "black -> white pointer found")

    _check_references = tracing.caller_of('_debug_check_not_white')

    def _debug_check_object_scanning(self, obj):
        ll_assert(marks.test(obj) == 0, "marked object outside a major collection")
        self._debug_check_object_sweeping(obj)
