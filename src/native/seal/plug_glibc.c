/* Plugs glibc's main heap: free chunks between its start and its top chunk.
 *
 * malloc is asked for sizes from large to small. As long as there is a hole of a size, malloc takes
 * it before it cuts the top chunk; so the first block from the top chunk (or from a mapping) ends a
 * size. A larger hole is cut, and its rest is a smaller hole that comes later.
 */
#define _GNU_SOURCE
#include "malloc_allocator.h"

#include "../process/mallinfo.h"
#include "../process/os_page.h"
#include "../process/procstat.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __GLIBC__

/* Chunk sizes are multiples of 16 with a header of 8 bytes inside: a request of
   16 * n + 8 bytes fills its chunk. */
#define CHUNK_STEP_BYTES 16
#define CHUNK_MIN_BYTES 32
#define CHUNK_HEADER_BYTES 8
#define CHUNK_FLAGS 7 /* in the low bits of a chunk's size */
#define PROBE_BYTES ((size_t)64)
#define FINE_MAX_BYTES ((size_t)4096)      /* below: every chunk size */
#define COARSE_MAX_BYTES ((size_t)1 << 16) /* above: cut into pieces of this size */

/* The most blocks from elsewhere that are held, and the most bytes of them if they are more than a few. */
#define STRAYS_MAX 4096
#define STRAYS_FEW 16
#define STRAYS_MAX_BYTES ((size_t)1 << 20)

/* glibc keeps no free chunk of this size at hand for a thread, unless it is tuned to. */
#define COUNTED_BYTES ((size_t)5000)

/* Whether memory is mapped at the address. */
static bool
is_mapped(uintptr_t address)
{
    uintptr_t os_page_bytes = os_page_get_bytes();
    unsigned char resident;
    return mincore((void *)(address & ~(os_page_bytes - 1)), 1, &resident) == 0;
}

/* The program break: it moves as the heap grows. */
static uintptr_t
heap_end(void)
{
    return (uintptr_t)sbrk(0);
}

/* The main heap ends at the program break, and its top chunk with it, whose size glibc reports.
   Not so where other code has moved the break, or glibc itself gave up on it: then no chunk of
   that size is there. */
bool
glibc_find_heap(glibc_heap *heap)
{
    mallinfo_account info = mallinfo_read();
    heap->start = procstat_read(PROCSTAT_HEAP_START);
    heap->top = heap_end() - info.top_bytes;
    if (heap->start == 0 || heap->top <= heap->start || info.top_bytes == 0
        || heap->top % CHUNK_STEP_BYTES != 0 || !is_mapped(heap->top)) {
        return false;
    }
    size_t size = ((const size_t *)heap->top)[1];
    return (size & ~(size_t)CHUNK_FLAGS) == info.top_bytes;
}

static const block_source heap_blocks = {malloc, free};

static bool
lies_between(const void *block, uintptr_t start, uintptr_t end)
{
    return (uintptr_t)block - start < end - start;
}

/* Blocks from elsewhere: of another thread's arena, out of this thread's chunks at hand, or
   mapped. They are held until a size is done, so that the next one is another. Each holds a pointer
   to the one before. */
typedef struct {
    void **last;
    size_t count;
} strays;

/* Returns whether `block` is held; else it is free again. */
static bool
hold(strays *held, void *block, size_t bytes, block_source source)
{
    if (held->count == STRAYS_MAX
        || (held->count >= STRAYS_FEW && held->count * bytes > STRAYS_MAX_BYTES)) {
        source.give(block);
        return false;
    }
    *(void **)block = held->last;
    held->last = block;
    held->count++;
    return true;
}

static void
let_go(strays *held, block_source source)
{
    while (held->last != NULL) {
        void **block = held->last;
        held->last = *block;
        source.give(block);
    }
}

bool
glibc_heap_serves(const glibc_heap *heap, block_source source)
{
    strays held = {0};
    void *block = source.take(PROBE_BYTES);
    while (block != NULL && !lies_between(block, heap->start, heap_end())) {
        block = hold(&held, block, PROBE_BYTES, source) ? source.take(PROBE_BYTES) : NULL;
    }
    bool inside = block != NULL;
    if (inside) {
        source.give(block);
    }
    let_go(&held, source);
    return inside;
}

bool
glibc_is_malloc(void)
{
    size_t before = mallinfo_read().used_bytes;
    void *block = probe_malloc(COUNTED_BYTES);
    size_t counted = mallinfo_read().used_bytes - before;
    free(block);
    return block != NULL && counted - COUNTED_BYTES < COUNTED_BYTES;
}

static void
plug_chunks_of(size_t chunk_bytes, const glibc_heap *heap, plug_counts *plugged)
{
    strays held = {0};
    for (;;) {
        void *block = malloc(chunk_bytes - CHUNK_HEADER_BYTES);
        if (block == NULL) {
            break;
        }
        if (lies_between(block, heap->start, heap->top)) {
            plugged->blocks++;
            plugged->bytes += malloc_usable_size(block) + CHUNK_HEADER_BYTES;
        }
        else if (lies_between(block, heap->top, heap_end())) { /* cut from the top chunk */
            free(block);
            break;
        }
        else if (!hold(&held, block, chunk_bytes, heap_blocks)) {
            break;
        }
    }
    let_go(&held, heap_blocks);
}

static size_t
next_smaller(size_t chunk_bytes)
{
    size_t step = chunk_bytes <= FINE_MAX_BYTES ? CHUNK_STEP_BYTES : chunk_bytes / 8;
    return (chunk_bytes - step) & ~(size_t)(CHUNK_STEP_BYTES - 1);
}

void
glibc_fill_heap(const glibc_heap *heap, plug_counts *plugged)
{
    for (size_t bytes = COARSE_MAX_BYTES; bytes >= CHUNK_MIN_BYTES; bytes = next_smaller(bytes)) {
        plug_chunks_of(bytes, heap, plugged);
    }
}

/* Merges the fast bins and gives whole free pages inside holes back to the system: plugs then cost
   the pages at their edges only. */
void
glibc_give_back(void)
{
    (void)malloc_trim(0);
}

#else

bool
glibc_find_heap(glibc_heap *heap)
{
    (void)heap;
    return false;
}

bool
glibc_heap_serves(const glibc_heap *heap, block_source source)
{
    (void)heap, (void)source;
    return false;
}

bool
glibc_is_malloc(void)
{
    return false;
}

void
glibc_fill_heap(const glibc_heap *heap, plug_counts *plugged)
{
    (void)heap, (void)plugged;
}

void
glibc_give_back(void)
{
}

#endif
