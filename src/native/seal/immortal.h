/* Makes the heap immortal: reading an object then writes no reference count (PEP 683). */
#ifndef PASTURE_IMMORTAL_H
#define PASTURE_IMMORTAL_H

#include "../cpython/cpython.h"

#include "type_counts.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

typedef struct {
    Py_ssize_t objects;           /* made immortal */
    Py_ssize_t hashes;            /* of strings and bytes, computed ahead */
    Py_ssize_t instructions;      /* rewritten to their first-run form */
    Py_ssize_t key_tables;        /* shared by instances of a class, made immortal */
    Py_ssize_t left_mortal;       /* their end has an effect: ends.h */
    Py_ssize_t owners_left_out;   /* 1: of what stays mortal only the nearest owners do, too */
    Py_ssize_t containers;        /* met so far whose items a registered function yields */
    Py_ssize_t containers_failed; /* of them, those whose function raised in this walk */
    type_counts types;            /* of those that stay mortal for their type; to be cleared */
    size_t scratch_bytes;         /* most working memory used; all of it is given back */
} immortal_counts;

/* Make every listed object, and everything reachable from one, immortal.
 *
 * Runs no Python code but the functions of registered containers. No other thread may run meanwhile. May be called again: then it counts only
 * what is new. Returns 0, or -1 with an exception set; objects made immortal until then stay so,
 * which is safe.
 */
int immortal_make_heap(immortal_counts *counts);

/* Move what the last walk left mortal, and was frozen since, back to the oldest generation: no
   collection finds a cycle among frozen objects, and some of these give something back at their
   end. Nothing where no walk has succeeded since the last call. */
void immortal_unfreeze_mortal(void);

#endif

/* Forget the containers of an interpreter that has ended. */
void immortal_forget(void);

#endif
