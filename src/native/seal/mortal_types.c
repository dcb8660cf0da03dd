/* Rows in the order in which their types were met: there are few. */
#include "mortal_types.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

static Py_ssize_t
bytes_of(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    size_t bytes = (size_t)type->tp_basicsize + (PyType_IS_GC(type) ? sizeof(PyGC_Head) : 0);
    if (type->tp_itemsize != 0) {
        bytes += (size_t)type->tp_itemsize * (size_t)Py_ABS(((PyVarObject *)op)->ob_size);
    }
    return (Py_ssize_t)bytes;
}

void
mortal_types_add(mortal_types *counts, PyTypeObject *type, PyObject *op)
{
    size_t at = 0;
    while (at < counts->count && counts->rows[at].type != type) {
        at++;
    }
    if (at == MORTAL_TYPES_MAX) {
        return;
    }
    if (at == counts->count) {
        counts->count++;
        counts->rows[at].type = (PyTypeObject *)Py_NewRef(type);
    }
    counts->rows[at].objects++;
    counts->rows[at].bytes += bytes_of(op);
}

PyObject *
mortal_types_list(const mortal_types *counts)
{
    PyObject *list = PyList_New((Py_ssize_t)counts->count);
    for (size_t i = 0; list != NULL && i < counts->count; i++) {
        PyObject *row = Py_BuildValue("(Onn)", counts->rows[i].type, counts->rows[i].objects,
                                      counts->rows[i].bytes);
        if (row == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

void
mortal_types_clear(mortal_types *counts)
{
    while (counts->count > 0) {
        Py_DECREF(counts->rows[--counts->count].type);
    }
}

#endif
#endif
