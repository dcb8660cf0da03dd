/* Transient working memory, taken from the system and given back to it.
 *
 * Nothing here goes through malloc: whatever a step used must not leave free chunks between the
 * objects that it sealed.
 */
#ifndef PASTURE_SCRATCH_H
#define PASTURE_SCRATCH_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Map zeroed memory. Returns 0 and the memory, or errno. The kernel backs each
   OS page when it is first written. */
int scratch_map(void **memory, size_t bytes);

/* `bytes` as in scratch_map(). */
void scratch_unmap(void *memory, size_t bytes);

#ifdef PASTURE_CHECK
/* Fault injection: the next `successes` requests are granted, all later ones fail with
   ENOMEM; a negative number ends that. */
void scratch_fail_after(long successes);

/* Of a library that was loaded before, if any (tests/failures/failing.c): whether a request is
   refused, be it for a place that is there. */
extern int failing_refuses(void) __attribute__((weak, visibility("default")));

static inline bool
scratch_is_refused(void)
{
    return failing_refuses != NULL && failing_refuses();
}
#else
static inline bool
scratch_is_refused(void)
{
    return false;
}
#endif

/* A stack of pointers that grows as it is filled. All zero, it is empty. */
typedef struct {
    void **items;
    size_t count;
    size_t capacity;   /* items */
    size_t peak_bytes; /* most memory ever mapped */
} scratch_stack;

/* Returns 0 or errno; on failure the stack is unchanged. */
int scratch_stack_grow(scratch_stack *stack);

/* Give all memory back and empty the stack. The peak is kept. */
void scratch_stack_release(scratch_stack *stack);

/* Returns 0, or errno where memory could not be had: the item is then not pushed. */
static inline int
scratch_stack_push(scratch_stack *stack, void *item)
{
    if (scratch_is_refused()) {
        return ENOMEM;
    }
    if (stack->count == stack->capacity) {
        int err = scratch_stack_grow(stack);
        if (err) {
            return err;
        }
    }
    stack->items[stack->count++] = item;
    return 0;
}

/* Precondition: the stack is not empty. */
static inline void *
scratch_stack_pop(scratch_stack *stack)
{
    return stack->items[--stack->count];
}

#endif
