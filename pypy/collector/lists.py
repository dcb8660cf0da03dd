"""Lists of addresses that lose some of their entries, in place.

RPython's collector rebuilds its lists of weak references, finalizers, large objects and
counted references in every major collection: in a forked child each of them becomes private,
even if nothing on it died. Here an entry is written only where another one went.

Works on the chunks of RPython's AddressStack and AddressDeque. A stack's order does not
matter to its users, so that the newest entry fills a gap; a deque's does, so that what
follows a gap moves up.
"""
from rpython.rlib.objectmodel import free_non_gc_object
from rpython.rtyper.lltypesystem import lltype


class StackSweep(object):
    """A walk over a stack, newest entry first, that can pause and may drop the entry it is at.

    Between steps the stack may grow; entries added then are not visited. Nothing else may
    take entries off.
    """
    _alloc_flavor_ = "raw"

    def __init__(self, stack, chunk_size):
        self.stack = stack
        self.chunk_size = chunk_size
        self.chunk = stack.chunk
        self.index = stack.used_in_last_chunk - 1
        self._settle()

    def _settle(self):
        if self.index < 0:      # also at once, if the stack is empty
            self.chunk = self.chunk.next
            self.index = self.chunk_size - 1    # all chunks but the newest are full

    def more(self):
        return bool(self.chunk)

    def entry(self):
        return self.chunk.items[self.index]

    def keep(self):
        self.index -= 1
        self._settle()

    def drop(self):
        chunk = self.chunk
        index = self.index
        stack = self.stack
        self.keep()
        if chunk == stack.chunk and index == stack.used_in_last_chunk - 1:
            stack.pop()
        else:
            chunk.items[index] = stack.pop()    # visited before, or added since

    def delete(self):
        free_non_gc_object(self)


def retain(stack, chunk_size, keep, argument):
    """Drops the entries for which keep(entry, argument) is false."""
    if not stack.non_empty():
        return
    sweep = StackSweep(stack, chunk_size)
    while sweep.more():
        if keep(sweep.entry(), argument):
            sweep.keep()
        else:
            sweep.drop()
    sweep.delete()
retain._annspecialcase_ = 'specialize:arg(2)'


class _DequePlace(object):
    _alloc_flavor_ = "raw"

    def __init__(self, deque, chunk_size):
        self.chunk = deque.oldest_chunk
        self.index = deque.index_in_oldest
        self.chunk_size = chunk_size

    def _settle(self):
        if self.index == self.chunk_size:
            self.chunk = self.chunk.next
            self.index = 0

    def at_end(self, deque):
        return self.chunk == deque.newest_chunk and self.index == deque.index_in_newest

    def read(self):
        self._settle()
        self.index += 1
        return self.chunk.items[self.index - 1]

    def write(self, address):
        self._settle()
        self.index += 1
        self.chunk.items[self.index - 1] = address

    def skip(self):
        self._settle()
        self.index += 1


def retain_pairs(deque, chunk_size, unused_chunks, keep, argument):
    """Drops the pairs for which keep(first, second, argument) is false; keeps the order.

    `unused_chunks` takes chunks that are not needed any more. They are never freed: some are
    the first chunks of lists that were made at translation, and not from malloc.
    """
    read = _DequePlace(deque, chunk_size)
    write = _DequePlace(deque, chunk_size)
    dropped = False
    while not read.at_end(deque):
        first = read.read()
        second = read.read()
        if not keep(first, second, argument):
            dropped = True
        elif dropped:
            write.write(first)
            write.write(second)
        else:
            write.skip()
            write.skip()
    if dropped:
        _truncate(deque, write, unused_chunks)
    free_non_gc_object(read)
    free_non_gc_object(write)
retain_pairs._annspecialcase_ = 'specialize:arg(3)'


def _truncate(deque, place, unused_chunks):
    surplus = place.chunk.next
    deque.newest_chunk = place.chunk
    deque.index_in_newest = place.index
    place.chunk.next = lltype.nullptr(lltype.typeOf(place.chunk).TO)
    while surplus:
        following = surplus.next
        unused_chunks.put(surplus)
        surplus = following
