/* Frozen objects of earlier seals of this process: all of them are immortal.
 *
 * The next seal need not walk along it, but looks at what it refers to: a container may have got new items.
 * Owns the set of these objects, which never die, and the functions among them.
 */
#ifndef PASTURE_SEALED_H
#define PASTURE_SEALED_H

#include "../cpython/cpython.h"
#include "../gc/mark_bits.h"
#include "../process/scratch.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

/* Behind which node of the list of frozen objects others are. The list itself: no seal is known, or its
   objects were unfrozen meanwhile. */
PyGC_Head *sealed_end(void);

/* Add an immortal object that is frozen. Returns 0 or errno. */
int sealed_add(PyObject *op);

/* Say whether all that is frozen now was added, or that nothing is known. */
void sealed_note(bool known);

/* The set, and its functions. Hold what sealed_end() says is known. */
const mark_bits *sealed_set(void);
const scratch_stack *sealed_functions(void);

#endif

/* Forget the objects of an interpreter that has ended. */
void sealed_forget(void);

#endif
