/* The two halves of a full collection around the built-in one: hide the survivors, show them.
 *
 * collect.h has the whole picture. hide_begin() finds the garbage without writing to a survivor,
 * and then hides the survivors. hide_end() puts them back.
 */
#ifndef PASTURE_HIDE_H
#define PASTURE_HIDE_H

#include "../cpython/cpython.h"

typedef struct {
    bool finished;        /* false: memory could not be had, nothing is hidden */
    bool from_roots;      /* false: the frozen part of the heap was not walked through */
    size_t objects;       /* examined */
    size_t unreached;     /* of them, not reached from the known roots */
    size_t garbage;       /* of them, found dead */
    size_t scratch_bytes; /* of working memory at most; all was given back */
    uint64_t nanoseconds; /* taken by hide_begin() */
} hide_report;

/* To be called before the other functions. Idempotent. Returns 0, or -1 with an exception set.
   From then on survivors are never left hidden in the child of a fork. */
int hide_init(void);

/* Find the garbage and hide the survivors. Runs no Python code.
   Preconditions: the built-in collector is about to start a full collection and holds its lock;
   this is the only interpreter; nothing is hidden. Where working memory cannot be had nothing
   changes, and the built-in collector does all the work (`finished` is then false). */
void hide_begin(bool include_frozen, hide_report *report);

/* Put the survivors into the oldest generation. Precondition: survivors are hidden, the built-in
   collection is over, and its lock is still held. */
void hide_end(void);

/* Whether survivors are hidden: between the two. */
bool hide_is_active(void);

/* Forget what belonged to an interpreter that has ended. */
void hide_forget(void);

#endif
