/* A full collection in two halves around the built-in one.
 *
 * hide_begin() finds the garbage without writing to a survivor and then hides every
 * survivor from the built-in collector, which so meets garbage alone; hide_end() puts
 * the survivors back. What happens to garbage in between (weak references, finalizers,
 * resurrection, gc.garbage, statistics) is CPython's own work.
 *
 * It need not be trusted: the built-in collector decides by itself which of the objects
 * it meets may die. A wrong judgement here keeps garbage alive, or costs time.
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

/* To be called before the others; idempotent. Returns 0, or -1 with an exception set.
   From then on survivors are never left hidden in the child of a fork. */
int hide_init(void);

/* Precondition: the built-in collector is about to start a full collection and holds its
   lock; this is the only interpreter; nothing is hidden. Runs no Python code. Where working
   memory cannot be had nothing changes, and the built-in collector does the whole work. */
void hide_begin(bool include_frozen, hide_report *report);

/* Precondition: the collection that hide_begin() preceded is over, its lock still held. */
void hide_end(void);

/* Whether survivors are hidden: between the two. */
bool hide_is_active(void);

#endif
