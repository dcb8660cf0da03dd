/* Collects the types by asking each for its subclasses, and gives each a version tag.
 *
 * Types are distinguished by their address: a metaclass may forbid hashing, or define equality.
 */
#include "types.h"

#ifndef CPY_UNSUPPORTED

#include "../gc/mark_bits.h"

/* Append the direct subclasses of `type` that are not marked yet. */
static int
append_subclasses(PyObject *types, mark_bits *seen, PyObject *type)
{
    PyObject *subclasses =
        PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
    if (subclasses == NULL) {
        return -1;
    }
    int result = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subclasses) && result == 0; i++) {
        PyObject *subclass = PyList_GET_ITEM(subclasses, i);
        if (mark_bits_is_marked(seen, subclass)) {
            continue;
        }
        if (mark_bits_mark(seen, subclass) != 0) {
            PyErr_NoMemory();
            result = -1;
        }
        else {
            result = PyList_Append(types, subclass);
        }
    }
    Py_DECREF(subclasses);
    return result;
}

PyObject *
types_all(void)
{
    mark_bits seen; /* not a set: its table would leave a hole in the heap */
    if (mark_bits_init(&seen) != 0) {
        return PyErr_NoMemory();
    }
    PyObject *types = PyList_New(0);
    int result = types != NULL ? PyList_Append(types, (PyObject *)&PyBaseObject_Type) : -1;
    for (Py_ssize_t i = 0; result == 0 && i < PyList_GET_SIZE(types); i++) {
        result = append_subclasses(types, &seen, PyList_GET_ITEM(types, i));
    }
    mark_bits_release(&seen);
    if (result < 0) {
        Py_CLEAR(types);
    }
    return types;
}

int
types_each(PyObject *types, int (*each)(PyTypeObject *, void *), void *arg)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(types); i++) {
        int result = each((PyTypeObject *)PyList_GET_ITEM(types, i), arg);
        if (result) {
            return result;
        }
    }
    return 0;
}

typedef struct {
    PyObject *any_name;
    Py_ssize_t assigned;
} version_count;

/* Only a type that has no version yet is given one: they are few. */
static int
assign_version(PyTypeObject *type, void *arg)
{
    version_count *count = arg;
    if (cpy_type_version(type) == 0) {
        cpy_type_assign_version(type, count->any_name);
        count->assigned += cpy_type_version(type) != 0;
    }
    return 0;
}

Py_ssize_t
types_assign_versions(void)
{
    PyObject *types = types_all();
    version_count count = {.any_name = PyUnicode_InternFromString("__class__")};
    Py_ssize_t result = -1;
    if (types != NULL && count.any_name != NULL) {
        (void)types_each(types, assign_version, &count);
        result = count.assigned;
    }
    Py_XDECREF(types);
    Py_XDECREF(count.any_name);
    return result;
}

#endif
