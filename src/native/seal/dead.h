/* Unreachable objects that earlier seals have made immortal: they are never freed.
 *
 * Found by the walk of a collection, from the interpreter's roots and all that is mortal: a collection has
 * just freed what of that is garbage. What C code alone holds counts as dead: references to an immortal
 * object are not counted. So does a string that, besides dead objects, only keys of dictionaries are.
 */
#ifndef PASTURE_DEAD_H
#define PASTURE_DEAD_H

#include "../cpython/cpython.h"

#include "type_counts.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

/* Count them, where this process is known to be sealed; the counts are to be cleared. Writes to no object,
   and runs no Python code. Returns 0, or -1 with an exception set. */
int dead_find(type_counts *counts);

#endif
#endif
