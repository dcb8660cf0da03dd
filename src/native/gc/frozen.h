/* Parts of the list of frozen objects that need no second walk.
 *
 * A part reaches from the start of the list to a list of its owner's, which no other code knows. Another
 * one of ours is at the start, for all parts. The interpreter adds to the end of a collector's list alone,
 * so what comes later is behind the part. gc.unfreeze() ends all parts.
 */
#ifndef PASTURE_FROZEN_H
#define PASTURE_FROZEN_H

#include "../cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

/* All zero, there is no such part. */
typedef struct {
    PyObject *end;
    unsigned long life; /* of the object at the start, when the part was noted; 0: there is none */
} frozen_part;

/* The part's list is there from then on. Returns 0, or -1 with an exception set. */
int frozen_part_prepare(frozen_part *part);

/* Have the part reach to the end of the list. Returns 0, or -1 with an exception set. */
int frozen_part_note(frozen_part *part);

/* Behind which node of the list others are: the list itself where there is no such part. */
PyGC_Head *frozen_part_end(const frozen_part *part);

/* Whether an object is one of those lists. */
bool frozen_is_own(const PyObject *op);

/* Forget the object at the start, of an interpreter that has ended. */
void frozen_forget(void);

#endif
#endif
