/* Rows in the order in which their types were met: there are few. */
#include "type_counts.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

static int
add_bytes(cpy_kind kind, const void *Py_UNUSED(start), size_t bytes, void *sum)
{
    if (kind != CPY_SHARED_KEYS) { /* of all instances of a class */
        *(Py_ssize_t *)sum += (Py_ssize_t)bytes;
    }
    return 0;
}

/* Bytes of an object, its prefix, and the memory that it owns alone where its type is built in. */
static Py_ssize_t
bytes_of(PyObject *op)
{
    Py_ssize_t sum = (Py_ssize_t)(cpy_object_bytes(op) + cpy_prefix_bytes(op));
    (void)cpy_each_storage(op, add_bytes, &sum);
    return sum;
}

void
type_counts_add(type_counts *counts, PyTypeObject *type, PyObject *op)
{
    size_t at = counts->last;
    if (at >= counts->count || counts->rows[at].type != type) {
        for (at = 0; at < counts->count && counts->rows[at].type != type;) {
            at++;
        }
    }
    if (at == TYPE_COUNTS_MAX) {
        return;
    }
    if (at == counts->count) {
        counts->count++;
        counts->rows[at].type = (PyTypeObject *)Py_NewRef(type);
    }
    counts->last = at;
    counts->rows[at].objects++;
    counts->rows[at].bytes += bytes_of(op);
}

PyObject *
type_counts_list(const type_counts *counts)
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
type_counts_clear(type_counts *counts)
{
    while (counts->count > 0) {
        Py_DECREF(counts->rows[--counts->count].type);
    }
}

#endif
#endif
