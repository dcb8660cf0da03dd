/* glibc's main heap: chunks between the start of the heap and its top chunk.
 *
 * malloc is asked for sizes from large to small. As long as a hole of the size exists it
 * is taken before the top chunk is cut; the first block that comes from the top chunk
 * (or from a mapping) ends a size. A larger hole is cut, and its rest is a smaller hole
 * that comes later.
 */
#define _GNU_SOURCE
#include "holes.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __GLIBC__

/* Chunk sizes are multiples of 16 with a header of 8 bytes inside: a request of
   16 * n + 8 bytes fills its chunk. */
#define CHUNK_STEP_BYTES 16
#define CHUNK_MIN_BYTES 32
#define CHUNK_HEADER_BYTES 8
#define PROBE_BYTES ((size_t)64)
#define FINE_MAX_BYTES ((size_t)4096)      /* below: every chunk size */
#define COARSE_MAX_BYTES ((size_t)1 << 16) /* above: cut into pieces of this size */

typedef struct {
    uintptr_t start;
    uintptr_t top; /* first byte of the top chunk */
    uintptr_t end;
} main_heap;

/* The main heap ends at the program break; its size and the size of its top chunk are
   what glibc says of it. */
static main_heap
find_main_heap(void)
{
    struct mallinfo2 info = mallinfo2();
    uintptr_t end = (uintptr_t)sbrk(0);
    return (main_heap){.start = end - info.arena, .end = end, .top = end - info.keepcost};
}

/* Whether malloc serves this thread from that heap. It does not where another allocator
   stands in front of glibc's (its blocks lie elsewhere, wherever its name comes from). */
static bool
serves_this_thread(const main_heap *heap)
{
    void *block = malloc(PROBE_BYTES);
    bool inside = (uintptr_t)block >= heap->start && (uintptr_t)block < heap->end;
    free(block);
    return inside;
}

/* A block from the main heap below its top chunk: from a hole. */
static bool
came_from_hole(const main_heap *heap, void *block)
{
    return (uintptr_t)block >= heap->start && (uintptr_t)block < heap->top;
}

static void
plug_chunks_of(size_t chunk_bytes, const main_heap *heap, holes_plugged *plugged)
{
    for (;;) {
        void *block = malloc(chunk_bytes - CHUNK_HEADER_BYTES);
        if (block == NULL) {
            return;
        }
        if (!came_from_hole(heap, block)) {
            free(block);
            return;
        }
        plugged->blocks++;
        plugged->bytes += malloc_usable_size(block) + CHUNK_HEADER_BYTES;
    }
}

static size_t
next_smaller(size_t chunk_bytes)
{
    size_t step = chunk_bytes <= FINE_MAX_BYTES ? CHUNK_STEP_BYTES : chunk_bytes / 8;
    return (chunk_bytes - step) & ~(size_t)(CHUNK_STEP_BYTES - 1);
}

int
holes_plug_malloc(holes_plugged *plugged)
{
    /* Merges the fast bins and gives whole free pages inside holes back to the system:
       plugs then cost the pages at their edges only. */
    malloc_trim(0);
    main_heap heap = find_main_heap();
    if (!serves_this_thread(&heap)) {
        return -1;
    }
    for (size_t bytes = COARSE_MAX_BYTES; bytes >= CHUNK_MIN_BYTES; bytes = next_smaller(bytes)) {
        plug_chunks_of(bytes, &heap, plugged);
    }
    return 0;
}

#else

int
holes_plug_malloc(holes_plugged *plugged)
{
    (void)plugged;
    return -1;
}

#endif
