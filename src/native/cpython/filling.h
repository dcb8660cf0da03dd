/* Containers that C code fills step by step, through functions that refuse another count than 1:
 * PyTuple_SetItem and _PyTuple_Resize, PySet_Add of a frozenset (CPython Objects/tupleobject.c,
 * Objects/setobject.c). A frozendict is filled by its own constructor, which asserts the same.
 */
#ifndef PASTURE_CPYTHON_FILLING_H
#define PASTURE_CPYTHON_FILLING_H

#include "pycore.h"

static inline bool
cpy_is_filled_by_one(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (PyType_HasFeature(type, Py_TPFLAGS_TUPLE_SUBCLASS)) {
        return Py_SIZE(op) != 0;
    }
#if PY_VERSION_HEX >= 0x030F0000
    if (PyFrozenDict_Check(op)) {
        return true;
    }
#endif
    return type->tp_basicsize >= (Py_ssize_t)sizeof(PySetObject) && PyFrozenSet_Check(op);
}

/* Whether `op` may be in the hands of code that fills it, for all that it shows by itself. */
static inline bool
cpy_may_be_filled(PyObject *op)
{
    return Py_REFCNT(op) == 1 && cpy_is_filled_by_one(op);
}

/* Whether an item of a tuple is missing still. */
static inline bool
cpy_has_gap(PyObject *op)
{
    if (!PyTuple_Check(op)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(op); i++) {
        if (PyTuple_GET_ITEM(op, i) == NULL) {
            return true;
        }
    }
    return false;
}

#endif
