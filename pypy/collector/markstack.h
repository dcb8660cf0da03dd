/* The mark stack: objects that are marked and still to be traced.
 *
 * Segments of their own mappings, returned to the system when the marking ends: the chunks of
 * RPython's AddressStack come from malloc, are never freed, and a forked child would write
 * into its parent's.
 *
 * An object is prefetched when it is pushed. (A short queue behind the stack, so that what is
 * traced next was prefetched some objects ago, gained nothing measurable over this.)
 */

#ifndef PASTURE_MARKSTACK_H
#define PASTURE_MARKSTACK_H

#include <stddef.h>

extern void **pasture_stack_top;   /* the next free entry */
extern void **pasture_stack_base;  /* first entry of the current segment */
extern void **pasture_stack_limit; /* one past its last entry */

/* Starts another segment. Ends the process with a message if there is no memory: a marking
 * that cannot remember what to trace cannot go on. */
void pasture_stack_grow(void);

/* Goes back to the segment before, which is full. Returns 0 if there is none. */
int pasture_stack_shrink(void);

/* Unmaps all segments. The stack must be empty. */
void pasture_stack_release(void);

/* Number of objects on the stack, and one of them by number; for checks. */
long pasture_stack_length(void);
void *pasture_stack_peek(long number);

static inline void
pasture_stack_push(void *object)
{
    if (__builtin_expect(pasture_stack_top == pasture_stack_limit, 0)) {
        pasture_stack_grow();
    }
    __builtin_prefetch(object);
    *pasture_stack_top++ = object;
}

/* The next object to trace, or NULL when there is none. */
static inline void *
pasture_stack_next(void)
{
    if (pasture_stack_top == pasture_stack_base && !pasture_stack_shrink()) {
        return NULL;
    }
    return *--pasture_stack_top;
}

#endif
