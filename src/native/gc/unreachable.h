/* The objects that the known roots did not reach, and which of them are garbage.
 *
 * Some are alive: stacks of C code and static variables hold them, which are not known roots. They
 * are distinguished by the classic algorithm (CPython Modules/gcmodule.c, deduce_unreachable): an
 * object whose reference count is higher than the number of references from within is held from
 * outside, and so is all that it reaches. The rest is garbage.
 */
#ifndef PASTURE_UNREACHABLE_H
#define PASTURE_UNREACHABLE_H

#include "mark.h"

#ifndef CPY_UNSUPPORTED

typedef struct {
    scratch_stack objects; /* all that were not reached: in runs, each in the order of its list */
    size_t garbage;        /* number of them that are garbage */
    size_t bytes;          /* most memory used besides the stack */
} unreachable_set;

/* All lists in which an object can be. Those before `first_examined` are not searched. */
typedef struct {
    PyGC_Head *heads[CPY_GENERATIONS + 1];
    int count;
    int first_examined;
} unreachable_lists;

/* Find the listed objects that are not marked, and note them; no other object stays noted.
   `unaligned` holds successors of marked objects that could not be noted. Precondition:
   mark_from_roots() has run, or nothing is marked. Returns 0 or ENOMEM. */
int unreachable_find(unreachable_set *set, mark_bits *bits, const unreachable_lists *lists,
                     const scratch_stack *unaligned);

/* Mark those of the set that are alive. The others stay unmarked: they are garbage.
   Returns 0 or ENOMEM. */
int unreachable_mark_alive(unreachable_set *set, mark_walk *walk);

/* Whether a listed object is garbage. Precondition: unreachable_mark_alive(). */
static inline bool
unreachable_is_garbage(const mark_bits *bits, PyObject *op)
{
    return mark_bits_is_noted(bits, op) && !mark_bits_is_marked(bits, op);
}

void unreachable_release(unreachable_set *set);

#endif
#endif
