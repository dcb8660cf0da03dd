/* The mark stack: objects that are marked and still to be traced.
 *
 * Segments of their own mappings, returned to the system when the marking ends: the chunks of
 * RPython's AddressStack come from malloc, are never freed, and a forked child would write
 * into its parent's.
 *
 * Between the stack and the tracer stands a short queue. What leaves the stack is prefetched
 * and traced a few objects later, when its header has arrived from memory.
 */

#ifndef PASTURE_MARKSTACK_H
#define PASTURE_MARKSTACK_H

#include <stddef.h>

#define PASTURE_QUEUE_LENGTH 8 /* a power of two */

extern void **pasture_stack_top;   /* the next free entry */
extern void **pasture_stack_base;  /* first entry of the current segment */
extern void **pasture_stack_limit; /* one past its last entry */
extern void *pasture_queue[PASTURE_QUEUE_LENGTH];
extern unsigned pasture_queue_at;

/* Starts another segment. Ends the process with a message if there is no memory: a marking
 * that cannot remember what to trace cannot go on. */
void pasture_stack_grow(void);

/* Goes back to the segment before, which is full. Returns 0 if there is none. */
int pasture_stack_shrink(void);

/* Unmaps all segments. The stack and the queue must be empty. */
void pasture_stack_release(void);

/* Number of objects on the stack and in the queue, and one of them by number; for checks. */
long pasture_stack_length(void);
void *pasture_stack_peek(long number);

static inline void
pasture_stack_push(void *object)
{
    if (__builtin_expect(pasture_stack_top == pasture_stack_limit, 0)) {
        pasture_stack_grow();
    }
    *pasture_stack_top++ = object;
}

/* The next object to trace, or NULL when there is none. */
static inline void *
pasture_stack_next(void)
{
    for (;;) {
        void *coming = NULL;
        if (pasture_stack_top != pasture_stack_base || pasture_stack_shrink()) {
            coming = *--pasture_stack_top;
            __builtin_prefetch(coming);
        }
        void *object = pasture_queue[pasture_queue_at];
        pasture_queue[pasture_queue_at] = coming;
        pasture_queue_at = (pasture_queue_at + 1) & (PASTURE_QUEUE_LENGTH - 1);
        if (object != NULL) {
            return object;
        }
        if (coming == NULL) {
            for (unsigned i = 0; i < PASTURE_QUEUE_LENGTH; i++) {
                object = pasture_queue[pasture_queue_at];
                pasture_queue[pasture_queue_at] = NULL;
                pasture_queue_at = (pasture_queue_at + 1) & (PASTURE_QUEUE_LENGTH - 1);
                if (object != NULL) {
                    return object;
                }
            }
            return NULL;
        }
    }
}

#endif
