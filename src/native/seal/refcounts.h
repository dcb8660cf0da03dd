/* Counts of immortal objects that old extensions move.
 *
 * An extension built for the stable ABI of before 3.12 counts references to immortal objects.
 * Where it takes one and the interpreter lets it go, or the other way round, a difference
 * stays; from 3.14 on 2^30 of them make the object mortal, without a reference. Here every
 * object that pasture makes immortal is remembered, one bit each, and counts that have drifted
 * are set again long before.
 *
 * A count that moves is written to, so the process has its page to itself: the pages it shares
 * with a parent or a child are not looked at.
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

/* Remember an object that is about to be made immortal. Returns 0 or ENOMEM. */
int refcounts_watch(PyObject *op);

/* Look at the counts and set again those that have drifted. Runs no Python code. */
void refcounts_restore(void);

/* refcounts_restore() if the process has used enough processor time since it last did. */
void refcounts_restore_if_due(void);

const refcounts_history *refcounts_get_history(void);

#endif
