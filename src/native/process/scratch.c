/* Maps and unmaps memory, grows stacks by mremap, and fails on request in the check build.
 *
 * Every request for working memory passes is_granted(), where a test can have it refused.
 */
#define _GNU_SOURCE
#include "scratch.h"

#include <errno.h>
#include <sys/mman.h>

#define FIRST_BYTES ((size_t)1 << 16)

#ifdef PASTURE_CHECK
static long granted = -1;

void
scratch_fail_after(long successes)
{
    granted = successes;
}

static bool
is_granted(void)
{
    if (scratch_is_refused()) {
        return false;
    }
    if (granted > 0) {
        granted--;
        return true;
    }
    return granted < 0;
}
#else
static inline bool
is_granted(void)
{
    return true;
}
#endif

int
scratch_map(void **memory, size_t bytes)
{
    if (!is_granted()) {
        return ENOMEM;
    }
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return errno;
    }
    *memory = mapped;
    return 0;
}

void
scratch_unmap(void *memory, size_t bytes)
{
    (void)munmap(memory, bytes);
}

int
scratch_stack_grow(scratch_stack *stack)
{
    size_t old_bytes = stack->capacity * sizeof *stack->items;
    size_t new_bytes = old_bytes ? old_bytes * 2 : FIRST_BYTES;
    if (!is_granted()) {
        return ENOMEM;
    }
    void *mapped = old_bytes ? mremap(stack->items, old_bytes, new_bytes, MREMAP_MAYMOVE)
                             : mmap(NULL, new_bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return errno;
    }
    stack->items = mapped;
    stack->capacity = new_bytes / sizeof *stack->items;
    if (new_bytes > stack->peak_bytes) {
        stack->peak_bytes = new_bytes;
    }
    return 0;
}

void
scratch_stack_release(scratch_stack *stack)
{
    if (stack->capacity) {
        (void)munmap(stack->items, stack->capacity * sizeof *stack->items);
    }
    stack->items = NULL;
    stack->count = stack->capacity = 0;
}
