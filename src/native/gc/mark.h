/* The mark phase: marks what can be reached, in the side bitmaps.
 *
 * The walk reads each object once and asks tp_traverse what it refers to, as the built-in
 * collector does. Objects in no list of the collector are marked, so that they are looked at
 * once, and not traversed.
 */
#ifndef PASTURE_MARK_H
#define PASTURE_MARK_H

#include "../cpython/cpython.h"
#include "../process/scratch.h"
#include "mark_bits.h"

#ifndef CPY_UNSUPPORTED

typedef struct {
    mark_bits *bits;
    traverseproc class_traverse; /* cpy_find_class_traverse() */
    PyObject *modules;           /* sys.modules */
    scratch_stack pending;       /* marked, still to be looked at */
    scratch_stack ranges;        /* parts of containers, still to be looked at */
    scratch_stack unaligned;     /* successors of marked objects that have no bit of their own */
    mark_bits_leaf *leaf;        /* where the walk through waiting bits is; NULL: at the end */
    size_t word;                 /* in the leaf */
    bool waiting;                /* a bit was set since that walk last started */
    size_t listed;               /* objects of the collector's lists marked */
    bool failed;                 /* memory could not be had: bits are incomplete */
} mark_walk;

/* Mark everything reachable from the interpreter's known roots, and from the objects of `held` (a
   list, or NULL). Note the successor of each marked object in its list; a successor that is not
   aligned goes to `walk->unaligned` instead.

   Afterwards a listed object that is not marked is noted, or the first of its list, or follows
   another one that is not marked. So it can be found without a walk over the lists. An object
   whose type says that it is no container now (tp_is_gc) may be in a list nevertheless: it
   stays unmarked, and so is found. Returns 0 or ENOMEM; then marks are incomplete. */
int mark_from_roots(mark_walk *walk, PyGC_Head *held);

/* Mark `op`; what it refers to waits for mark_among_noted(). */
void mark_add_noted(mark_walk *walk, PyObject *op);

/* Mark what can be reached from the added objects through noted objects alone.
   Precondition: every noted object is in a list. Returns 0 or ENOMEM. */
int mark_among_noted(mark_walk *walk);

/* Give back the memory of the stacks. The bits stay. */
void mark_release(mark_walk *walk);

#endif
#endif
