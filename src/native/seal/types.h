/* All types of the interpreter, static ones included, and their version tags.
 *
 * The collector's lists do not hold static types. They are found from `object` through the
 * subclasses of each type.
 */
#ifndef PASTURE_TYPES_H
#define PASTURE_TYPES_H

#include "../cpython/cpython.h"

/* New list of all types reachable from `object` through its subclasses, or NULL with
   an exception set. */
PyObject *types_all(void);

/* Call `each` with every type of the list; stops at its first result that is not 0
   and returns that. */
int types_each(PyObject *types, int (*each)(PyTypeObject *, void *), void *arg);

/* Give every type that has none a version tag, so that the first lookup in a child
   does not write it. Returns how many got one, or -1 with an exception set. */
Py_ssize_t types_assign_versions(void);

#endif
