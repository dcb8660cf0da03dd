/* Lists of functions that an interpreter calls, which CPython has no function for.
 *
 * Their places may differ from what the headers say: they are read with care.
 */
#ifndef PASTURE_CPYTHON_HOOKS_H
#define PASTURE_CPYTHON_HOOKS_H

#include "pycore.h"

#include "internal/pycore_interp.h"

#include "readable.h"

/* The list in such a place, or NULL. */
static inline PyObject *
cpy_hooks(PyObject *held)
{
    bool is_list = readable(held, sizeof(PyListObject)) && PyList_CheckExact(held);
    return is_list ? held : NULL;
}

/* The index of a function in the list, which may be NULL; -1 if it is not there. */
static inline Py_ssize_t
cpy_find_hook(PyObject *hooks, PyObject *hook)
{
    Py_ssize_t at = hooks != NULL ? PyList_GET_SIZE(hooks) - 1 : -1;
    while (at >= 0 && PyList_GET_ITEM(hooks, at) != hook) {
        at--;
    }
    return at;
}

#endif
