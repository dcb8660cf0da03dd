"""Small-object pages whose headers and free blocks lie outside the pages.

Takes the place of RPython's minimarkpage.ArenaCollection, which puts a header into each page,
relinks every page in every sweep, and threads its free lists through dead objects. Here a
page holds objects and nothing else. Beside it stand its size class, when it was started, and
a bitmap of the blocks in use; the sweep of a page is `allocated &= marks`, 16 words, and
writes only what changes.

Terms. An arena is a mapping of 64 pages. A page holds blocks of one size class (a size in
words). A run is a row of free blocks of one page that `malloc` hands out one after the
other; the whole run counts as allocated as soon as it is taken, and what was not handed out
of it falls to the next sweep, because nothing unallocated is ever marked. A page is known by
a number: 64 times the slot of its arena, plus its place in it.

An epoch begins with each sweep and with each fork. A page remembers in which one it was
started. Thus the sweep knows pages started since it started, whose objects have no marks and
live; and a child knows pages from before the fork: it neither fills their free blocks nor
writes their bitmaps, so what it shares with its parent it goes on sharing. Pages all of whose
objects died it does free, and arenas of such pages it unmaps.

Empty arenas of a process's own are kept for its next pages, up to as many as are in use, and
offered to the system (MADV_FREE): mapping and faulting in what was just unmapped costs more
than allocating in it.

Invariant, for each page that is not shared: marks are a subset of `allocated`.
"""
from rpython.memory.gc.minimarkpage import WORD, WORD_POWER_2, _dummy_size, out_of_memory
from rpython.rlib.debug import ll_assert
from rpython.rlib.rarithmetic import LONG_BIT, LONG_BIT_SHIFT, r_uint
from rpython.rtyper.lltypesystem import lltype, llmemory, llarena, rffi

from collector.native import WORDS, function

PAGES_SHIFT = 6
MAX_PAGES = 1 << PAGES_SHIFT   # of an arena
WORDS_OF_PAGE = 16              # of the bitmap, for a page of 1,024 words
NO_PAGE = -1
KEPT_AT_LEAST = 8               # empty arenas, 4 MiB

ARENA = lltype.Struct(
    'pasture_arena',
    ('base', llmemory.Address),
    ('free_pages', lltype.Signed),
    ('started', lltype.Signed),                                       # epoch
    ('kept', lltype.Signed),                                        # 1: empty, for later
    ('allocated', WORDS),                                           # 16 words a page
    ('size_class', rffi.CFixedArray(lltype.Signed, MAX_PAGES)),    # 0: the page is free
    ('epoch', rffi.CFixedArray(lltype.Signed, MAX_PAGES)),
    ('next_partial', rffi.CFixedArray(lltype.Signed, MAX_PAGES)))
ARENA_PTR = lltype.Ptr(ARENA)
NO_ARENA = lltype.nullptr(ARENA)
ARENA_TABLE = rffi.CArray(ARENA_PTR)

# One a size class.
ALLOCATION = lltype.Struct(
    'pasture_allocation',
    ('next', llmemory.Address),         # the run: its next block,
    ('left', lltype.Signed),            # and how many blocks it has left
    ('page', lltype.Signed),            # where the next run is looked for,
    ('block', lltype.Signed),           # from this block on
    ('partial', lltype.Signed))         # then in this page and those linked to it


def _map_model(arena_bytes, page_bytes):
    return llarena.arena_malloc(arena_bytes, 0)


def _unmap_model(arena, arena_bytes):
    llarena.arena_reset(arena, arena_bytes, 0)
    llarena.arena_free(arena)


def _sweep_model(page, allocated, first_word, owned, block_bytes, block_count):
    """The sweep of one page for addresses that are objects (pages.h has the contract)."""
    from collector import marks
    page = llarena.getfakearenaaddress(page)
    survivors = 0
    for number in range(block_count):
        bit = number * block_bytes // WORD
        word, mask = first_word + bit // LONG_BIT, r_uint(1) << (bit % LONG_BIT)
        block = page + number * block_bytes
        there = block.arena.objectptrs.get(block.offset + WORD)     # after its header
        if there is not None:
            object_address = llmemory.cast_ptr_to_adr(there)
            if marks.test(object_address):
                assert allocated[word] & mask
                marks.clear(object_address)
                survivors += 1
                continue
            if owned:
                llarena.arena_reset(block, _dummy_size(block_bytes), 0)
        if owned:
            allocated[word] = allocated[word] & ~mask
    return survivors


_map = function('pasture_arena_map', [lltype.Signed, lltype.Signed], llmemory.Address,
                _map_model)
_unmap = function('pasture_arena_unmap', [llmemory.Address, lltype.Signed], lltype.Void,
                  _unmap_model)
_offer = function('pasture_arena_offer', [llmemory.Address, lltype.Signed], lltype.Void,
                  lambda arena, arena_bytes: None)
_prefetch = function('pasture_prefetch_blocks', [llmemory.Address], lltype.Void,
                     lambda address: None)
_sweep = function('pasture_sweep_page',
                  [llmemory.Address, WORDS, lltype.Signed, lltype.Signed, lltype.Signed,
                   lltype.Signed], lltype.Signed, _sweep_model)


class PageStore(object):
    """The interface is that of RPython's ArenaCollection."""
    _alloc_flavor_ = "raw"

    def __init__(self, arena_size, page_size, small_request_threshold):
        "NOT_RPYTHON"
        assert page_size <= WORDS_OF_PAGE * LONG_BIT * WORD
        self.arena_size = arena_size
        self.page_size = page_size
        self.small_request_threshold = small_request_threshold
        self.pages_of_arena = min(arena_size // page_size, MAX_PAGES)
        self.size_classes = small_request_threshold // WORD + 1
        self.allocations = lltype.malloc(rffi.CArray(ALLOCATION), self.size_classes,
                                         flavor='raw', zero=True, immortal=True)
        self.blocks_of_page = lltype.malloc(rffi.CArray(lltype.Signed), self.size_classes,
                                            flavor='raw', immortal=True)
        for size_class in range(self.size_classes):
            self.blocks_of_page[size_class] = page_size // (WORD * max(size_class, 1))
        # For each size class the bitmap of a page with all its blocks in use.
        self.full_bitmaps = lltype.malloc(WORDS.TO, self.size_classes * WORDS_OF_PAGE,
                                          flavor='raw', zero=True, immortal=True)
        for size_class in range(1, self.size_classes):
            for block in range(self.blocks_of_page[size_class]):
                word, bit = divmod(block * size_class, LONG_BIT)
                self.full_bitmaps[size_class * WORDS_OF_PAGE + word] |= r_uint(1) << bit
        #
        # Slots of freed arenas hold NO_ARENA and are used again: numbers of pages stay.
        self.arenas = lltype.nullptr(ARENA_TABLE)
        self.slots_used = 0
        self.slots = 0
        # The arena that pages are taken from, and whether another might have one.
        self.current_slot = -1
        self.search_arenas = False
        self.arenas_count = 0      # like the totals, read by later versions of the base class
        self.kept_count = 0
        #
        self.epoch = 1
        self.sweep_epoch = 0        # pages of this epoch or later are not swept
        self.shared_before = 0      # pages of an earlier epoch are shared with the parent
        self.sweep_slot = 0         # the sweep's place
        self.sweep_page = 0
        #
        self.total_memory_used = r_uint(0)
        self.total_memory_alloced = r_uint(0)
        self.peak_memory_alloced = r_uint(0)
        self.peak_memory_used = r_uint(0)
        self._drop_runs()

    # ----- allocating

    def malloc(self, size):
        """A block of `size` bytes, a multiple of the word, not cleared."""
        nsize = llmemory.raw_malloc_usage(size)
        ll_assert(nsize > 0, "malloc: size is null or negative")
        ll_assert(nsize <= self.small_request_threshold, "malloc: size too big")
        ll_assert((nsize & (WORD - 1)) == 0, "malloc: size is not aligned")
        self.total_memory_used += r_uint(nsize)
        size_class = nsize >> WORD_POWER_2
        allocation = self.allocations[size_class]
        if allocation.left == 0:
            self._take_run(size_class)
        result = allocation.next
        allocation.next = result + nsize
        allocation.left -= 1
        _prefetch(result)
        llarena.arena_reserve(result, _dummy_size(size))
        return result

    def _take_run(self, size_class):
        """Puts the next run of free blocks into the allocation of this size class."""
        allocation = self.allocations[size_class]
        while True:
            page = allocation.page
            if page != NO_PAGE and self._take_run_of_page(size_class, page):
                return
            page = allocation.partial
            if page == NO_PAGE:
                self._begin_page(size_class)
                return
            arena = self.arenas[page >> PAGES_SHIFT]
            allocation.partial = arena.next_partial[page & (MAX_PAGES - 1)]
            allocation.page = page
            allocation.block = 0
    _take_run._dont_inline_ = True

    def _take_run_of_page(self, size_class, page):
        allocation = self.allocations[size_class]
        arena = self.arenas[page >> PAGES_SHIFT]
        place = page & (MAX_PAGES - 1)
        allocated = arena.allocated
        first_bit = place * (WORDS_OF_PAGE * LONG_BIT)
        block_count = self.blocks_of_page[size_class]
        block = allocation.block
        while (block < block_count and
               self._is_set(allocated, first_bit + block * size_class) != r_uint(0)):
            block += 1
        if block == block_count:
            return False
        start = block
        while block < block_count:
            bit = first_bit + block * size_class
            if self._is_set(allocated, bit) != r_uint(0):
                break
            allocated[bit >> LONG_BIT_SHIFT] |= r_uint(1) << (bit & (LONG_BIT - 1))
            block += 1
        allocation.next = (arena.base + place * self.page_size) + start * (size_class * WORD)
        allocation.left = block - start
        allocation.block = block
        return True

    def _is_set(self, allocated, bit):
        return (allocated[bit >> LONG_BIT_SHIFT] >> (bit & (LONG_BIT - 1))) & r_uint(1)
    _is_set._always_inline_ = True

    def _drop_runs(self):
        size_class = 0
        while size_class < self.size_classes:
            allocation = self.allocations[size_class]
            allocation.left = 0
            allocation.page = NO_PAGE
            allocation.partial = NO_PAGE
            size_class += 1

    # ----- pages and arenas

    def _begin_page(self, size_class):
        """Makes a free page one of this size class, and all of it the run."""
        if self.current_slot < 0 or self.arenas[self.current_slot].free_pages == 0:
            self._choose_arena()
        arena = self.arenas[self.current_slot]
        place = 0
        while arena.size_class[place] != 0:
            place += 1
        arena.free_pages -= 1
        arena.size_class[place] = size_class
        arena.epoch[place] = self.epoch
        full = size_class * WORDS_OF_PAGE
        word = place * WORDS_OF_PAGE
        last = word + WORDS_OF_PAGE
        while word < last:
            arena.allocated[word] = self.full_bitmaps[full]
            full += 1
            word += 1
        allocation = self.allocations[size_class]
        allocation.next = arena.base + place * self.page_size
        allocation.left = self.blocks_of_page[size_class]
        allocation.page = NO_PAGE

    def _choose_arena(self):
        """Prefers the arena with the fewest free pages, so that others may become empty."""
        best = -1
        if self.search_arenas:
            fewest = MAX_PAGES + 1
            slot = 0
            while slot < self.slots_used:
                arena = self.arenas[slot]
                if arena != NO_ARENA and 0 < arena.free_pages < fewest:
                    fewest = arena.free_pages
                    best = slot
                slot += 1
        if best < 0:
            self.search_arenas = False
            best = self._begin_arena()
        arena = self.arenas[best]
        if arena.kept != 0:
            arena.kept = 0
            self.kept_count -= 1
        self.current_slot = best

    def _begin_arena(self):
        base = _map(self.arena_size, self.page_size)
        if not base:
            out_of_memory("out of memory: couldn't allocate the next arena")
        # A MemoryError must not leave from here: a minor collection would stop half-way.
        try:
            arena = lltype.malloc(ARENA, flavor='raw', zero=True, track_allocation=False)
            arena.allocated = lltype.malloc(WORDS.TO, MAX_PAGES * WORDS_OF_PAGE, flavor='raw',
                                            zero=True, track_allocation=False)
            slot = self._free_slot()
        except MemoryError:
            out_of_memory("out of memory: couldn't allocate the next arena's headers")
            return -1
        arena.base = base
        arena.free_pages = self.pages_of_arena
        arena.started = self.epoch
        self.total_memory_alloced += r_uint(self.arena_size)
        if self.total_memory_alloced > self.peak_memory_alloced:
            self.peak_memory_alloced = self.total_memory_alloced
        self.arenas[slot] = arena
        self.arenas_count += 1
        return slot

    def _free_slot(self):
        slot = 0
        while slot < self.slots_used:
            if self.arenas[slot] == NO_ARENA:
                return slot
            slot += 1
        if slot == self.slots:
            self._enlarge_table()
        self.slots_used = slot + 1
        return slot

    def _enlarge_table(self):
        enlarged = lltype.malloc(ARENA_TABLE, self.slots * 2 + 64, flavor='raw',
                                 track_allocation=False)
        slot = 0
        while slot < self.slots_used:
            enlarged[slot] = self.arenas[slot]
            slot += 1
        if self.arenas:
            lltype.free(self.arenas, flavor='raw', track_allocation=False)
        self.arenas = enlarged
        self.slots = self.slots * 2 + 64

    def _arena_is_empty(self, slot):
        """Keeps the arena for later, or unmaps it."""
        arena = self.arenas[slot]
        if self.current_slot == slot:
            self.current_slot = -1
        room = max(self.arenas_count - self.kept_count, KEPT_AT_LEAST)
        if arena.started >= self.shared_before and self.kept_count + 1 - arena.kept <= room:
            if arena.kept == 0:
                arena.kept = 1
                self.kept_count += 1
                _offer(arena.base, self.arena_size)
        else:
            self.kept_count -= arena.kept
            self._end_arena(slot)

    def _end_arena(self, slot):
        arena = self.arenas[slot]
        self.arenas[slot] = NO_ARENA
        self.arenas_count -= 1
        self.total_memory_alloced -= r_uint(self.arena_size)
        _unmap(arena.base, self.arena_size)
        lltype.free(arena.allocated, flavor='raw', track_allocation=False)
        lltype.free(arena, flavor='raw', track_allocation=False)

    # ----- sweeping

    def mass_free_prepare(self):
        """Begins a sweep. Blocks handed out from now on are not looked at by it."""
        if self.total_memory_used > self.peak_memory_used:
            self.peak_memory_used = self.total_memory_used
        self.total_memory_used = r_uint(0)
        self.epoch += 1
        self.sweep_epoch = self.epoch
        self.sweep_slot = 0
        self.sweep_page = 0
        self._drop_runs()

    def mass_free_incremental(self, ok_to_free_func, max_pages):
        """Sweeps up to `max_pages` pages; returns whether that was the last of them.

        The marks say what may be freed. `ok_to_free_func` is for other page stores.
        """
        while self.sweep_slot < self.slots_used:
            arena = self.arenas[self.sweep_slot]
            if arena != NO_ARENA:
                while self.sweep_page < self.pages_of_arena:
                    place = self.sweep_page
                    self.sweep_page = place + 1
                    if (arena.size_class[place] != 0 and
                            arena.epoch[place] < self.sweep_epoch):
                        self._sweep_page(arena, self.sweep_slot, place)
                        max_pages -= 1
                        if max_pages <= 0:
                            return False
                if arena.free_pages == self.pages_of_arena:
                    self._arena_is_empty(self.sweep_slot)
            self.sweep_slot += 1
            self.sweep_page = 0
        return True

    def _sweep_page(self, arena, slot, place):
        size_class = arena.size_class[place]
        block_bytes = size_class * WORD
        block_count = self.blocks_of_page[size_class]
        owned = arena.epoch[place] >= self.shared_before
        base = arena.base + place * self.page_size
        survivors = _sweep(base, arena.allocated, place * WORDS_OF_PAGE, int(owned),
                           block_bytes, block_count)
        self.total_memory_used += r_uint(survivors * block_bytes)
        if survivors == 0:
            llarena.arena_reset(base, self.page_size, 0)
            arena.size_class[place] = 0
            arena.free_pages += 1
            self.search_arenas = True
        elif owned and survivors < block_count:
            allocation = self.allocations[size_class]
            arena.next_partial[place] = allocation.partial
            allocation.partial = slot * MAX_PAGES + place

    def mass_free(self, ok_to_free_func):
        self.mass_free_prepare()
        while not self.mass_free_incremental(ok_to_free_func, 1 << 30):
            pass

    # ----- forks

    def share(self):
        """In a child: all pages are shared with the parent from now on."""
        self.epoch += 1
        self.shared_before = self.epoch
        self._drop_runs()

    def share_no_more(self):
        """The parent has gone: all pages are this process's own."""
        self.shared_before = 0

    # ----- checks

    def _arena_of(self, address):
        slot = 0
        while slot < self.slots_used:
            arena = self.arenas[slot]
            if arena != NO_ARENA and arena.base <= address < arena.base + self.arena_size:
                return arena
            slot += 1
        return NO_ARENA

    def debug_check_block(self, address, size):
        """The verifier's part: a live object of `size` bytes lies where a block is in use."""
        arena = self._arena_of(address)
        if arena == NO_ARENA:
            return False
        offset = address - arena.base
        place = offset // self.page_size
        offset -= place * self.page_size
        block_bytes = arena.size_class[place] * WORD
        ll_assert(block_bytes != 0, "live object in a free page")
        ll_assert(offset % block_bytes == 0, "live object not at the start of a block")
        ll_assert(size <= block_bytes, "live object larger than its block")
        bit = place * (WORDS_OF_PAGE * LONG_BIT) + offset // WORD
        ll_assert(self._is_set(arena.allocated, bit) != r_uint(0),
                  "live object in a free block")
        return True
