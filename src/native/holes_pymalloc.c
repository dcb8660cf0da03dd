/* pymalloc: pools of one size class each.
 *
 * For each class blocks are taken until one comes from a pool that was empty: then no
 * pool in use has a free block left. That last block is given back, and with it its pool.
 */
#include "holes.h"

#include "cpython.h"

#ifndef CPY_UNSUPPORTED

static int
plug_size_class(size_t block_bytes, holes_plugged *plugged)
{
    for (;;) {
        void *block = PyObject_Malloc(block_bytes);
        if (block == NULL) {
            return -1;
        }
        if (cpy_pool_used(cpy_pool_of(block)) == 1) {
            PyObject_Free(block);
            return 0;
        }
        plugged->blocks++;
        plugged->bytes += block_bytes;
    }
}

/* Compares what is assumed of pools with a block just handed out. */
static bool
pools_look_right(void)
{
    const size_t block_bytes = 3 * CPY_SMALL_BLOCK_STEP_BYTES;
    void *block = PyObject_Malloc(block_bytes);
    if (block == NULL) {
        return false;
    }
    cpy_pool *pool = cpy_pool_of(block);
    size_t offset = (uintptr_t)block - (uintptr_t)pool;
    bool right = cpy_pool_block_bytes(pool) == block_bytes && cpy_pool_used(pool) >= 1
                 && cpy_pool_used(pool) <= CPY_POOL_BYTES / block_bytes && offset >= sizeof *pool
                 && (offset - sizeof *pool) % block_bytes == 0;
    PyObject_Free(block);
    return right;
}

int
holes_plug_pymalloc(holes_plugged *plugged)
{
    const char *allocator = cpy_allocator_name();
    if (allocator == NULL || strcmp(allocator, "pymalloc") != 0 || !pools_look_right()) {
        return -1;
    }
    for (size_t bytes = CPY_SMALL_BLOCK_STEP_BYTES; bytes <= CPY_SMALL_BLOCK_MAX_BYTES;
         bytes += CPY_SMALL_BLOCK_STEP_BYTES) {
        if (plug_size_class(bytes, plugged) < 0) {
            return 0; /* out of memory: what is plugged stays plugged */
        }
    }
    return 0;
}

#endif
