/* Collects the types by asking each for its subclasses, and gives each a version tag.
 *
 * Types are told apart by their address: a metaclass may forbid hashing, or define equality.
 */
#include "types.h"

#ifndef CPY_UNSUPPORTED

/* Append the direct subclasses of `type` that are not in `seen` yet. */
static int
append_subclasses(PyObject *types, PyObject *seen, PyObject *type)
{
    PyObject *subclasses =
        PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
    if (subclasses == NULL) {
        return -1;
    }
    int result = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subclasses) && result == 0; i++) {
        PyObject *subclass = PyList_GET_ITEM(subclasses, i);
        PyObject *address = PyLong_FromVoidPtr(subclass); /* a metaclass may forbid hashing */
        int known = address == NULL ? -1 : PySet_Contains(seen, address);
        if (known < 0) {
            result = -1;
        }
        else if (!known) {
            result = PySet_Add(seen, address) < 0 ? -1 : PyList_Append(types, subclass);
        }
        Py_XDECREF(address);
    }
    Py_DECREF(subclasses);
    return result;
}

PyObject *
types_all(void)
{
    PyObject *types = PyList_New(0);
    PyObject *seen = PySet_New(NULL);
    if (types == NULL || seen == NULL || PyList_Append(types, (PyObject *)&PyBaseObject_Type) < 0) {
        goto error;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(types); i++) {
        if (append_subclasses(types, seen, PyList_GET_ITEM(types, i)) < 0) {
            goto error;
        }
    }
    Py_DECREF(seen);
    return types;

error:
    Py_XDECREF(types);
    Py_XDECREF(seen);
    return NULL;
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
