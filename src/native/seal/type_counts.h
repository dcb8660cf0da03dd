/* How many objects a walk has met of each type, and their bytes.
 *
 * Of TYPE_COUNTS_MAX types: the first that are met. There are no more with many objects.
 */
#ifndef PASTURE_TYPE_COUNTS_H
#define PASTURE_TYPE_COUNTS_H

#include "../cpython/cpython.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

#define TYPE_COUNTS_MAX 256

typedef struct {
    struct {
        PyTypeObject *type; /* a reference */
        Py_ssize_t objects, bytes;
    } rows[TYPE_COUNTS_MAX];
    size_t count;
    size_t last; /* row: objects of one type come in a row */
} type_counts;

/* Count an object for this type. Allocates nothing. */
void type_counts_add(type_counts *counts, PyTypeObject *type, PyObject *op);

/* (type, objects, bytes) of each, a new reference; NULL with an exception set. */
PyObject *type_counts_list(const type_counts *counts);

/* Let go of the types. */
void type_counts_clear(type_counts *counts);

#endif
#endif
