/* Reference counts of immortal objects, and extensions that make them drift.
 *
 * An extension built for the stable ABI of before 3.12 counts references to immortal objects, which
 * the interpreter does not. Where the one takes a reference and the other releases it, a difference
 * stays. From 3.14 on, 2^30 of them make the object mortal, without a reference. So every object
 * that pasture makes immortal is remembered, with one bit, and a count that has drifted is set
 * again long before that.
 *
 * A count that drifts is written to, so the process has that page to itself. Pages shared with a
 * parent or a child cannot hold one and are not looked at.
 */
#ifndef PASTURE_REFCOUNTS_H
#define PASTURE_REFCOUNTS_H

#include "../cpython/cpython.h"

typedef struct {
    size_t looks;    /* how often counts were looked at */
    size_t counts;   /* looked at, in all */
    size_t restored; /* of them, set again */
    size_t bytes;    /* of memory for the bits */
} refcounts_history;

/* Remember an object that is about to be made immortal. Returns 0 or errno. */
int refcounts_watch(PyObject *op);

/* Whether an address is that of an object that was remembered. */
bool refcounts_is_watched(const void *op);

/* Look at the counts of remembered objects, and set those that have drifted to where they were.
   Runs no Python code. */
void refcounts_restore(void);

/* Forget the objects of an interpreter that has ended. */
void refcounts_forget(void);

/* refcounts_restore(), if the process has used enough processor time since the last look: looks
   take 1% of it at most, but the pause between two is never longer than 10 s of it. */
void refcounts_restore_if_due(void);

/* Counts that were read and corrected so far. Never NULL. */
const refcounts_history *refcounts_get_history(void);

#endif
