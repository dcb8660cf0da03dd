/* Objects of certain types, among all that the collector lists.
 *
 * Nothing of an object or its type is called: only addresses of types are compared.
 */
#ifndef PASTURE_INSTANCES_H
#define PASTURE_INSTANCES_H

#include "../cpython/cpython.h"

/* A list of the objects whose type is one of a tuple's items, frozen ones left out as
   gc.get_objects() does. Returns NULL with an exception set. */
PyObject *instances_find(PyObject *types);

#endif
