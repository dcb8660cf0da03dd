/* Plugs pymalloc's pools, each of which holds blocks of one size class.
 *
 * For each class, blocks are taken until one comes from a pool that was empty: then no pool in use
 * has a free block left. That last block is given back, and with it its pool.
 *
 * Where no arena can be mapped (RLIMIT_AS, no overcommit), pymalloc takes a block from the raw
 * allocator instead, which lies in no pool, and nothing in the block shows it. So while blocks are
 * taken, the raw allocator is replaced by one that does the same and notes that it was asked.
 */
#define _GNU_SOURCE
#include "plug.h"

#include "../cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

#include <pthread.h>

static PyMemAllocatorEx raw; /* the interpreter's own */
static pthread_t taker;      /* other threads may allocate meanwhile */
static bool asked_raw;

static void *
note_and_allocate(void *ctx, size_t bytes)
{
    if (pthread_equal(taker, pthread_self())) { /* not reached: threads that run without the GIL */
        asked_raw = true;
    }
    return raw.malloc(ctx, bytes);
}

/* All but the function stays, the context too: whatever another thread reads while this is
   written fits together. */
static void
watch_raw(void)
{
    taker = pthread_self();
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw);
    PyMemAllocatorEx noting = raw;
    noting.malloc = note_and_allocate;
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &noting);
}

static void
unwatch_raw(void)
{
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &raw);
}

/* A block from a pool, or NULL. Precondition: watch_raw(). */
static void *
take_block(size_t block_bytes)
{
    asked_raw = false;
    void *block = PyObject_Malloc(block_bytes);
    if (asked_raw) {
        PyObject_Free(block); /* NULL, where there was none either */
        return NULL;
    }
    return block;
}

static int
plug_size_class(size_t block_bytes, plug_counts *plugged)
{
    for (;;) {
        void *block = take_block(block_bytes);
        if (block == NULL) {
            return -1;
        }
        if (cpy_pool_used(cpy_pool_of(block)) == 1) {
            PyObject_Free(block);
            return 0;
        }
        memset(block, 0, block_bytes); /* an OS page of nothing else needs no room in an image */
        plugged->blocks++;
        plugged->bytes += block_bytes;
    }
}

static void
plug_size_classes(plug_counts *plugged)
{
    for (size_t bytes = CPY_SMALL_BLOCK_STEP_BYTES; bytes <= CPY_SMALL_BLOCK_MAX_BYTES;
         bytes += CPY_SMALL_BLOCK_STEP_BYTES) {
        if (plug_size_class(bytes, plugged) < 0) {
            return; /* out of memory: what is plugged stays plugged */
        }
    }
}

int
plug_pymalloc_holes(plug_counts *plugged)
{
    const char *allocator = cpy_allocator_name();
    if (allocator == NULL || strcmp(allocator, "pymalloc") != 0) {
        return -1;
    }
    watch_raw();
    plug_size_classes(plugged);
    unwatch_raw();
    return 0;
}

#endif
