/* What earlier seals have made immortal, and nothing leads to any more: it is never freed.
 *
 * Found from the interpreter's roots, static types and all that is mortal: a collection has just freed
 * what of that is garbage. What C code alone holds counts as dead: a reference to an immortal object is
 * not counted. So do items of registered containers, whose functions are Python code.
 */
#ifndef PASTURE_DEAD_H
#define PASTURE_DEAD_H

#include "../cpython/cpython.h"

#include "type_counts.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

typedef struct {
    Py_ssize_t sealed_bytes; /* of all immortal objects */
    type_counts dead;        /* to be cleared */
} dead_account;

/* Count both; nothing where this process is not known to be sealed. Writes to no object, and runs no
   Python code. Returns 0, or -1 with an exception set. */
int dead_find(dead_account *account);

#endif
#endif
