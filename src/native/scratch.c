#define _GNU_SOURCE
#include "scratch.h"

#include <errno.h>
#include <sys/mman.h>

#define FIRST_BYTES ((size_t)1 << 16)

int
scratch_stack_grow(scratch_stack *stack)
{
    size_t old_bytes = stack->capacity * sizeof *stack->items;
    size_t new_bytes = old_bytes ? old_bytes * 2 : FIRST_BYTES;
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
