/* Plugs glibc's main heap: free chunks between its start and its top chunk.
 *
 * malloc is asked for sizes from large to small. As long as there is a hole of a size, malloc takes
 * it before it cuts the top chunk; so the first block from the top chunk (or from a mapping) ends a
 * size. A larger hole is cut, and its rest is a smaller hole that comes later.
 */
#define _GNU_SOURCE
#include "plug.h"

#include "../process/os_page.h"
#include "../process/procstat.h"

#include <malloc.h>
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

/* A thread keeps so many free chunks of a size at hand (glibc 2.42: 16), of any arena. */
#define STRAYS_MAX 16

typedef struct {
    uintptr_t start; /* first byte of the heap */
    uintptr_t top;   /* first byte of its top chunk, before any block was taken */
} main_heap;

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

/* The main heap ends at the program break, and its top chunk with it, whose size glibc tells.
   Not so where other code has moved the break, or glibc itself gave up on it: then no chunk of
   that size stands there. */
static bool
find_main_heap(main_heap *heap)
{
    struct mallinfo2 info = mallinfo2();
    heap->start = procstat_read(PROCSTAT_HEAP_START);
    heap->top = heap_end() - info.keepcost;
    if (heap->start == 0 || heap->top <= heap->start || info.keepcost == 0
        || heap->top % CHUNK_STEP_BYTES != 0 || !is_mapped(heap->top)) {
        return false;
    }
    size_t size = ((const size_t *)heap->top)[1];
    return (size & ~(size_t)CHUNK_FLAGS) == info.keepcost;
}

static bool
lies_between(const void *block, uintptr_t start, uintptr_t end)
{
    return (uintptr_t)block >= start && (uintptr_t)block < end;
}

/* Blocks from elsewhere: of another thread's arena, out of this thread's chunks at hand, or
   mapped. They are held until a size is done, so that the next one is another. */
typedef struct {
    void *blocks[STRAYS_MAX];
    int count;
} strays;

/* Returns whether `block` is held; else it is free again. */
static bool
hold(strays *held, void *block)
{
    if (held->count == STRAYS_MAX) {
        free(block);
        return false;
    }
    held->blocks[held->count++] = block;
    return true;
}

static void
let_go(strays *held)
{
    while (held->count) {
        free(held->blocks[--held->count]);
    }
}

/* Whether malloc serves this thread from that heap. It does not where another allocator
   stands in front of glibc's (its blocks lie elsewhere, wherever its name comes from). */
static bool
serves_this_thread(const main_heap *heap)
{
    strays held = {.count = 0};
    void *block = malloc(PROBE_BYTES);
    bool inside = lies_between(block, heap->start, heap_end());
    while (block != NULL && !inside && hold(&held, block)) {
        block = malloc(PROBE_BYTES);
        inside = lies_between(block, heap->start, heap_end());
    }
    if (inside) {
        free(block);
    }
    let_go(&held);
    return inside;
}

static void
plug_chunks_of(size_t chunk_bytes, const main_heap *heap, plug_counts *plugged)
{
    strays held = {.count = 0};
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
        else if (!hold(&held, block)) {
            break;
        }
    }
    let_go(&held);
}

static size_t
next_smaller(size_t chunk_bytes)
{
    size_t step = chunk_bytes <= FINE_MAX_BYTES ? CHUNK_STEP_BYTES : chunk_bytes / 8;
    return (chunk_bytes - step) & ~(size_t)(CHUNK_STEP_BYTES - 1);
}

int
plug_malloc_holes(plug_counts *plugged)
{
    /* Merges the fast bins and gives whole free pages inside holes back to the system:
       plugs then cost the pages at their edges only. */
    malloc_trim(0);
    main_heap heap;
    if (!find_main_heap(&heap) || !serves_this_thread(&heap)) {
        return -1;
    }
    for (size_t bytes = COARSE_MAX_BYTES; bytes >= CHUNK_MIN_BYTES; bytes = next_smaller(bytes)) {
        plug_chunks_of(bytes, &heap, plugged);
    }
    return 0;
}

#else

int
plug_malloc_holes(plug_counts *plugged)
{
    (void)plugged;
    return -1;
}

#endif
