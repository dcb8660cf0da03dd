/* jemalloc, by its mallctl(3).
 *
 * Its proof is the count of bytes that this thread has allocated: a jemalloc that serves something
 * else, or nothing, does not count what malloc hands out. Builds without statistics, and those
 * with a prefix (as Firefox's), are not recognised.
 */
#define _GNU_SOURCE
#include "malloc_allocator.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define PROBE_BYTES ((size_t)64)

static int (*control)(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);

/* Returns whether it could be read. */
static bool
read_allocated(uint64_t *bytes)
{
    size_t size = sizeof *bytes;
    return control("thread.allocated", bytes, &size, NULL, 0) == 0 && size == sizeof *bytes;
}

static bool
serves_malloc(void)
{
    *(void **)&control = dlsym(RTLD_DEFAULT, "mallctl");
    uint64_t before = 0, after = 0;
    if (control == NULL || !read_allocated(&before)) {
        return false;
    }
    void *block = probe_malloc(PROBE_BYTES);
    bool counted = block != NULL && read_allocated(&after) && after - before >= PROBE_BYTES
                   && after - before < 2 * PROBE_BYTES;
    free(block);
    return counted;
}

/* Arena 4096 is all of them (MALLCTL_ARENAS_ALL). */
static void
give_back(void)
{
    (void)control("thread.tcache.flush", NULL, NULL, NULL, 0);
    (void)control("arena.4096.purge", NULL, NULL, NULL, 0);
}

/* Slabs that are partly free are served before a new one, the oldest first. */
const malloc_allocator malloc_jemalloc = {
    "jemalloc", serves_malloc, give_back, {16, (size_t)32 << 10}};

/* not reached in this file: another version of this allocator */
