/* What the mark from known roots left: objects that only stacks and C code hold, and the
 * garbage. Here they are told apart, by CPython's own rule.
 *
 * The classic algorithm (CPython Modules/gcmodule.c, deduce_unreachable): reference count
 * minus references from within; what has some left is held from outside, with all it
 * reaches. The rest is garbage. Counts are kept in an array, indexed by rank in the
 * bitmap, so that no object is written to, and none outside the remainder is read.
 */
#ifndef PASTURE_UNREACHABLE_H
#define PASTURE_UNREACHABLE_H

#include "mark.h"

#ifndef CPY_UNSUPPORTED

typedef struct {
    scratch_stack objects; /* in runs, each in the order of its list */
    size_t garbage;        /* how many of them are */
    size_t bytes;          /* of memory used at most, the stack aside */
} unreachable_set;

/* All lists in which an object can stand; those before `first_examined` are not searched. */
typedef struct {
    PyGC_Head *heads[CPY_GENERATIONS + 1];
    int count;
    int first_examined;
} unreachable_lists;

/* Find the objects of the lists that are not marked, and note them. Other objects are no
   longer noted. `unaligned`: successors of marked objects beside those that are noted.
   Returns 0 or ENOMEM. */
int unreachable_find(unreachable_set *set, mark_bits *bits, const unreachable_lists *lists,
                     const scratch_stack *unaligned);

/* Mark those that are alive; those that stay unmarked are garbage. Returns 0 or ENOMEM. */
int unreachable_mark_alive(unreachable_set *set, mark_walk *walk);

/* Whether an object of the lists is garbage, after unreachable_mark_alive(). */
static inline bool
unreachable_is_garbage(const mark_bits *bits, PyObject *op)
{
    return mark_bits_is_noted(bits, op) && !mark_bits_is_marked(bits, op);
}

void unreachable_release(unreachable_set *set);

#endif
#endif
