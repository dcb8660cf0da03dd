/* Code objects that run, gathered on pages of their own.
 *
 * Running code writes to itself: counters of instructions that never specialize, histories of
 * branches. The code that a request runs is small, but it lies scattered between code that ran once
 * or never, a few words on each of very many pages. Copied side by side, it costs a child a
 * fraction of them.
 */
#ifndef PASTURE_HOTCODE_H
#define PASTURE_HOTCODE_H

#include "../cpython/cpython.h"

#include "../process/scratch.h"

typedef struct {
    Py_ssize_t codes; /* gathered */
    size_t bytes;     /* of memory they take now, never given back */
} hotcode_gathered;

/* Forget which code has run, so that hotcode_gather() finds what ran since. */
void hotcode_forget(void);

/* Push the addresses of the code that hotcode_gather() would copy. Returns 0, or -1 with an exception
   set. */
int hotcode_find(scratch_stack *found);

/* Push all code of functions, and what is nested in it, borrowed. Returns 0, or -1 with an exception set. */
int hotcode_all(scratch_stack *found);

/* Have the next hotcode_gather() copy the code at these addresses, and no other, whether it ran or
   not. An address at which no code lies stands for nothing. Returns 0, or -1 with an exception set:
   nothing is chosen then. */
int hotcode_choose(const void *const *addresses, size_t count);

/* Copy the code objects that ran and are bound to a function into memory of their own, and bind the
 * copies instead. Copies live for ever and are equal to their originals.
 *
 * Code that a tool holds on to (monitoring, weak references, extra data) stays where it is. To be
 * called before specialize_code(), which makes all code look as if it ran. Returns 0, or -1 with
 * an exception set and nothing moved.
 */
int hotcode_gather(hotcode_gathered *gathered);

#endif
