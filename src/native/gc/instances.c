/* Objects of certain types, found by a walk over the collector's lists.
 *
 * Leans on CPython: each object that the collector tracks is in the list of one generation, and
 * its type is set before it is tracked.
 */

#include "instances.h"

#include <stdlib.h>

#ifndef CPY_UNSUPPORTED

typedef struct {
    const uintptr_t *types; /* in order */
    size_t count;
    PyObject *found; /* a list */
} instance_search;

static int
compare(const void *one, const void *other)
{
    uintptr_t left = *(const uintptr_t *)one, right = *(const uintptr_t *)other;
    return left < right ? -1 : left > right;
}

static int
append_if_wanted(PyObject *op, void *arg)
{
    const instance_search *search = arg;
    uintptr_t type = (uintptr_t)Py_TYPE(op);
    bool wanted = bsearch(&type, search->types, search->count, sizeof type, compare) != NULL;
    return wanted ? PyList_Append(search->found, op) : 0;
}

PyObject *
instances_find(PyObject *types)
{
    if (layout_require(LAYOUT_COLLECTOR) < 0) {
        return NULL;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(types);
    uintptr_t *sorted = PyMem_New(uintptr_t, count);
    PyObject *found = sorted != NULL ? PyList_New(0) : PyErr_NoMemory();
    if (found != NULL) {
        for (size_t i = 0; i < count; i++) {
            sorted[i] = (uintptr_t)PyTuple_GET_ITEM(types, (Py_ssize_t)i);
        }
        qsort(sorted, count, sizeof *sorted, compare);
        instance_search search = {sorted, count, found};
        if (cpy_gc_visit_unfrozen(append_if_wanted, &search) < 0) {
            Py_CLEAR(found);
        }
    }
    PyMem_Free(sorted);
    return found;
}

#endif
