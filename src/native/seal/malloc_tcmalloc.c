/* tcmalloc of gperftools, by the C functions of its MallocExtension. */
#define _GNU_SOURCE
#include "malloc_allocator.h"

#include <dlfcn.h>
#include <stdlib.h>

#define PROBE_BYTES ((size_t)64)
#define OWNED 1 /* MallocExtension_Ownership: unknown, owned, not owned */

static int (*ownership)(const void *block);
static void (*release_free_memory)(void);

static bool
serves_malloc(void)
{
    *(void **)&ownership = dlsym(RTLD_DEFAULT, "MallocExtension_GetOwnership");
    *(void **)&release_free_memory = dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
    if (ownership == NULL || release_free_memory == NULL) {
        return false;
    }
    void *block = probe_malloc(PROBE_BYTES);
    bool owned = block != NULL && ownership(block) == OWNED;
    free(block);
    return owned;
}

/* The thread keeps its cache. A new one would ask for few blocks at a time at first, and those never
   come out of the cache between threads, where the holes are. */
static void
give_back(void)
{
    release_free_memory();
}

const malloc_allocator malloc_tcmalloc = {
    "tcmalloc", serves_malloc, give_back, {32, (size_t)32 << 10}};

/* not reached in this file: another version of this allocator */
