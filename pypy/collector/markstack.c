/* Segments of the mark stack. The first words of a segment lead to the one before it. */

#define _GNU_SOURCE
#include "markstack.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SEGMENT_BYTES (256UL * 1024)
#define SEGMENT_ENTRIES (SEGMENT_BYTES / sizeof(void *) - 1)

typedef struct segment {
    struct segment *before;
    void *entries[SEGMENT_ENTRIES];
} segment;

_Static_assert(sizeof(segment) == SEGMENT_BYTES, "a segment is its entries and one link");

void **pasture_stack_top;
void **pasture_stack_base;
void **pasture_stack_limit;

static segment *current;
static segment *spare; /* so that a stack swinging about a boundary does not map each time */

static void
enter(segment *entered, size_t used)
{
    current = entered;
    pasture_stack_base = entered->entries;
    pasture_stack_top = entered->entries + used;
    pasture_stack_limit = entered->entries + SEGMENT_ENTRIES;
}

void
pasture_stack_grow(void)
{
    segment *fresh = spare;
    spare = NULL;
    if (fresh == NULL) {
        fresh = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
        if (fresh == MAP_FAILED) {
            fprintf(stderr, "out of memory: no room for the collector's mark stack\n");
            abort();
        }
    }
    fresh->before = current;
    enter(fresh, 0);
}

int
pasture_stack_shrink(void)
{
    if (current == NULL || current->before == NULL) {
        return 0;
    }
    if (spare != NULL) {
        (void)munmap(spare, SEGMENT_BYTES);
    }
    spare = current;
    enter(current->before, SEGMENT_ENTRIES);
    return 1;
}

void
pasture_stack_release(void)
{
    while (current != NULL) {
        segment *before = current->before;
        (void)munmap(current, SEGMENT_BYTES);
        current = before;
    }
    if (spare != NULL) {
        (void)munmap(spare, SEGMENT_BYTES);
        spare = NULL;
    }
    pasture_stack_top = pasture_stack_base = pasture_stack_limit = NULL;
}

long
pasture_stack_length(void)
{
    long length = pasture_stack_top - pasture_stack_base;
    if (current != NULL) {
        for (segment *full = current->before; full != NULL; full = full->before) {
            length += (long)SEGMENT_ENTRIES;
        }
    }
    return length;
}

void *
pasture_stack_peek(long number)
{
    long here = pasture_stack_top - pasture_stack_base;
    segment *looked_at = current;
    while (looked_at != NULL && number >= here) {
        number -= here;
        here = (long)SEGMENT_ENTRIES;
        looked_at = looked_at->before;
    }
    return looked_at == NULL ? NULL : looked_at->entries[number];
}
