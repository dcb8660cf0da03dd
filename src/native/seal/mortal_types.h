/* How many objects a walk leaves mortal for their type alone, by type, and their bytes.
 *
 * The type is that of the library from outside, not a class that is derived from it. Of MORTAL_TYPES_MAX
 * types; there are no more with many objects.
 */
#ifndef PASTURE_MORTAL_TYPES_H
#define PASTURE_MORTAL_TYPES_H

#include "../cpython/cpython.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

#define MORTAL_TYPES_MAX 256

typedef struct {
    struct {
        PyTypeObject *type; /* a reference */
        Py_ssize_t objects, bytes;
    } rows[MORTAL_TYPES_MAX];
    size_t count;
} mortal_types;

/* Count an object for this type. Allocates nothing. */
void mortal_types_add(mortal_types *counts, PyTypeObject *type, PyObject *op);

/* (type, objects, bytes) of each, a new reference; NULL with an exception set. */
PyObject *mortal_types_list(const mortal_types *counts);

/* Let go of the types. */
void mortal_types_clear(mortal_types *counts);

#endif
#endif
