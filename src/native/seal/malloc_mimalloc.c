/* mimalloc, by mi_collect(). */
#define _GNU_SOURCE
#include "malloc_allocator.h"

#include <dlfcn.h>
#include <stdlib.h>

#define PROBE_BYTES ((size_t)64)

static bool (*is_in_heap)(const void *block);
static void (*collect)(bool force);

static bool
serves_malloc(void)
{
    *(void **)&is_in_heap = dlsym(RTLD_DEFAULT, "mi_is_in_heap_region");
    *(void **)&collect = dlsym(RTLD_DEFAULT, "mi_collect");
    if (is_in_heap == NULL || collect == NULL) {
        return false;
    }
    void *block = probe_malloc(PROBE_BYTES);
    bool owned = block != NULL && is_in_heap(block);
    free(block);
    return owned;
}

static void
give_back(void)
{
    collect(true);
}

/* A page of its own is used up before it looks for another: 64 KiB of blocks of one size. */
const malloc_allocator malloc_mimalloc = {
    "mimalloc", serves_malloc, give_back, {4096, (size_t)64 << 10}};

/* not reached in this file: another version of this allocator */
