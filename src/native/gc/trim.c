/* Gives free memory back: pools of pymalloc through madvise, glibc's heaps through malloc_trim.
 *
 * Invariant: the first OS page of a pool stays, and nothing in it changes but the size class.
 * Without a size class a pool is set up again when it is next taken, as one that was never used: its
 * blocks, and the list of free blocks that runs through them, may be gone by then.
 */
#define _GNU_SOURCE
#include "trim.h"

#include "../cpython/cpython.h"
#include "../process/huge_arenas.h"
#include "../process/mallinfo.h"
#include "../process/os_page.h"
#include "../process/pagemap.h"
#include "../process/procstat.h"

#ifndef CPY_UNSUPPORTED

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if CPY_HAS_ARENAS

typedef struct {
    int pagemap;
    size_t os_page_bytes;
    size_t freed_bytes;
} trimming;

/* `entries`: those of the pool's OS pages, the first one first. */
static void
trim_pool(trimming *work, cpy_pool *pool, const uint64_t *entries)
{
    size_t own = 0;
    for (size_t i = 1; i < CPY_POOL_BYTES / work->os_page_bytes; i++) {
        own += pagemap_is_own(entries[i]);
    }
    if (!own || !pagemap_is_own(entries[0])) {
        return;
    }
    cpy_pool_forget_class(pool);
    char *second = (char *)pool + work->os_page_bytes;
    if (madvise(second, CPY_POOL_BYTES - work->os_page_bytes, MADV_DONTNEED) == 0) {
        work->freed_bytes += own * work->os_page_bytes;
    }
}

static void
trim_arena(uintptr_t start, cpy_pool *free_pools, void *arg)
{
    trimming *work = arg;
    uint64_t entries[CPY_ARENA_BYTES / MIN_OS_PAGE_BYTES];
    if (!pagemap_read(work->pagemap, start, work->os_page_bytes, entries,
                      CPY_ARENA_BYTES / work->os_page_bytes)) {
        return;
    }
    /* Giving a part back splits a huge page: that is worth while if half of it is free. */
    size_t pools = 0;
    for (cpy_pool *pool = free_pools; pool != NULL; pool = pool->nextpool) {
        pools++;
    }
    if (huge_arenas_are_taken() && pools < CPY_ARENA_BYTES / CPY_POOL_BYTES / 2) {
        return;
    }
    for (cpy_pool *pool = free_pools; pool != NULL; pool = pool->nextpool) {
        trim_pool(work, pool, &entries[((uintptr_t)pool - start) / work->os_page_bytes]);
    }
}

/* Where an OS page is as large as a pool, or larger, there is nothing to give back: each page has
   the header of a pool in it. Arenas that are free as a whole are unmapped by pymalloc. */
size_t
trim_pools(void)
{
    const char *allocator = cpy_allocator_name();
    trimming work = {.os_page_bytes = os_page_get_bytes()};
    if (!layout_has(LAYOUT_ARENAS) || allocator == NULL
        || strcmp(allocator, "pymalloc") != 0
        /* not reached: the kernel and the processor are what they are on this machine */
        || work.os_page_bytes < MIN_OS_PAGE_BYTES || work.os_page_bytes >= CPY_POOL_BYTES) {
        return 0;
    }
    work.pagemap = pagemap_open();
    if (work.pagemap < 0) {
        return 0;
    }
    cpy_each_arena(trim_arena, &work);
    (void)close(work.pagemap);
    return work.freed_bytes;
}

#else

size_t
trim_pools(void)
{
    return 0;
}

#endif

#  ifdef __GLIBC__

/* More than any heap: malloc_trim() then leaves the end of the main heap where it is. */
#    define LEAVE_THE_BREAK ((size_t)PTRDIFF_MAX)

/* Emptying the top chunk writes to its first and its last page. */
#    define MIN_TOP_OS_PAGES 4

static bool
is_in_main_heap(const char *block, size_t bytes, uintptr_t start)
{
    return (uintptr_t)block - start + bytes <= (uintptr_t)sbrk(0) - start;
}

/* Give back the OS pages of the top chunk. Other threads may be allocating: only what malloc
   has handed out to us is ours to empty. That free() may lower the break as any does. */
static void
trim_top(size_t os_page_bytes)
{
    size_t top_bytes = mallinfo_read().top_bytes;
    uintptr_t start = procstat_read(PROCSTAT_HEAP_START);
    if (start == 0 || top_bytes < MIN_TOP_OS_PAGES * os_page_bytes) {
        return;
    }
    size_t bytes = top_bytes - os_page_bytes;
    char *block = malloc(bytes);
    if (block == NULL) {
        return;
    }
    size_t before = -(uintptr_t)block & (os_page_bytes - 1);
    if (is_in_main_heap(block, bytes, start)) {
        (void)madvise(block + before, (bytes - before) & ~(os_page_bytes - 1), MADV_DONTNEED);
    }
    free(block);
}

/* The kernel does not join what a forked process adds to its heap to what it inherited. If
   each generation of a lineage cut the break to the last page in use, the next one would add
   a mapping for each page that its heap is larger by. */
void
trim_chunks(void)
{
    (void)malloc_trim(LEAVE_THE_BREAK);
    trim_top(os_page_get_bytes());
}

#  else

void
trim_chunks(void)
{
}

#  endif

#endif
