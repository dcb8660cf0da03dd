/* pymalloc: pools of small blocks, and the arenas that pools are cut from. */
#ifndef PASTURE_CPYTHON_PYMALLOC_H
#define PASTURE_CPYTHON_PYMALLOC_H

#include "pycore.h"

#define CPY_POOL_BYTES 16384u
#define CPY_SMALL_BLOCK_STEP_BYTES 16u
#define CPY_SMALL_BLOCK_MAX_BYTES 512u

#if PY_VERSION_HEX >= 0x030C0000
typedef struct pool_header cpy_pool;
static_assert(POOL_SIZE == CPY_POOL_BYTES, "a pool is 16 KiB");
static_assert(ALIGNMENT == CPY_SMALL_BLOCK_STEP_BYTES, "size classes are 16 bytes apart");
static_assert(SMALL_REQUEST_THRESHOLD == CPY_SMALL_BLOCK_MAX_BYTES, "largest small block");
#else
/* CPython 3.11 Objects/obmalloc.c, struct pool_header: not in a header there. */
typedef struct cpy_pool {
    union {
        uint8_t *padding;
        unsigned int count;
    } ref;
    uint8_t *freeblock;
    struct cpy_pool *nextpool;
    struct cpy_pool *prevpool;
    unsigned int arenaindex;
    unsigned int szidx;
    unsigned int nextoffset;
    unsigned int maxnextoffset;
} cpy_pool;
#endif
static_assert(sizeof(cpy_pool) == 48, "a pool's header is 48 bytes");

static inline cpy_pool *
cpy_pool_of(void *block)
{
    return (cpy_pool *)((uintptr_t)block & ~((uintptr_t)CPY_POOL_BYTES - 1));
}

/* Number of blocks handed out from the pool. */
static inline unsigned int
cpy_pool_used(const cpy_pool *pool)
{
    return pool->ref.count;
}

/* Arenas, of which pools are cut. From 3.13 on, where the interpreter points to their state. */
#if PY_VERSION_HEX >= 0x030D0000
#  define CPY_HAS_ARENAS 1
#  define CPY_ARENA_BYTES ((size_t)ARENA_SIZE)

/* Call `visit` with the start of each arena that has free pools, and the first of these. */
static inline void
cpy_each_arena(void (*visit)(uintptr_t start, cpy_pool *free_pools, void *arg), void *arg)
{
    const struct _obmalloc_mgmt *state = &PyInterpreterState_Get()->obmalloc->mgmt;
    for (unsigned int i = 0; i < state->maxarenas; i++) {
        const struct arena_object *arena = &state->arenas[i];
        if (arena->address != 0 && arena->freepools != NULL) {
            visit(arena->address, arena->freepools, arg);
        }
    }
}

/* Have a free pool set up again when it is next taken, whatever its blocks hold by then. */
static inline void
cpy_pool_forget_class(cpy_pool *pool)
{
    pool->szidx = DUMMY_SIZE_IDX;
}
#else
#  define CPY_HAS_ARENAS 0
#endif

/* Name of the allocator behind PyObject_Malloc ("pymalloc", "malloc", ...), or NULL
   where hooks are in the way (tracemalloc). */
PyAPI_FUNC(const char *) _PyMem_GetCurrentAllocatorName(void);

static inline const char *
cpy_allocator_name(void)
{
    return _PyMem_GetCurrentAllocatorName();
}

#endif
