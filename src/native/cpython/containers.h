/* The objects in common containers, read from their layout instead of a call of tp_traverse.
 *
 * The mark phase walks lists, tuples, dictionaries and instances of plain classes this way. What
 * is read must be what tp_traverse visits: verify_references() compares them in the check build.
 */
#ifndef PASTURE_CPYTHON_CONTAINERS_H
#define PASTURE_CPYTHON_CONTAINERS_H

#include "pycore.h"
#include "type.h"

/* `count` references, one every `stride` words. Some may be NULL. */
typedef struct {
    PyObject **first;
    Py_ssize_t count;
    Py_ssize_t stride;
} cpy_references;

static inline cpy_references
cpy_list_references(PyObject *op)
{
    return (cpy_references){((PyListObject *)op)->ob_item, Py_SIZE(op), 1};
}

static inline cpy_references
cpy_tuple_references(PyObject *op)
{
    return (cpy_references){((PyTupleObject *)op)->ob_item, Py_SIZE(op), 1};
}

/* The values; keys too where not all keys are strings: the same that dict_traverse visits. */
static inline cpy_references
cpy_dict_references(PyObject *op)
{
    PyDictObject *dict = (PyDictObject *)op;
    PyDictKeysObject *keys = dict->ma_keys;
    if (dict->ma_values != NULL) {
        return (cpy_references){dict->ma_values->values, keys->dk_nentries, 1};
    }
    if (DK_IS_UNICODE(keys)) {
        return (cpy_references){&DK_UNICODE_ENTRIES(keys)->me_value, keys->dk_nentries, 2};
    }
    return (cpy_references){NULL, -1, 0}; /* keys and hashes between: ask tp_traverse */
}

/* tp_traverse of classes made in Python, or NULL with an exception set. */
static inline traverseproc
cpy_find_class_traverse(void)
{
    PyTypeObject *type = cpy_find_type("_frozen_importlib", "ModuleSpec");
    traverseproc traverse = type != NULL ? type->tp_traverse : NULL;
    Py_XDECREF(type);
    return traverse;
}

/* Instances of plain classes (3.13): values lie in the object, with room for 30 at first.
   The keys that the instances share say how many are in use. Returns whether `op`
   is one, without __slots__ in its class or any base; then `values` and `dict` are all it
   refers to but its type. */
static inline bool
cpy_plain_instance(PyObject *op, traverseproc class_traverse, cpy_references *values,
                   PyObject **dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyTypeObject *type = Py_TYPE(op);
    if (type->tp_traverse != class_traverse || !PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES)) {
        return false;
    }
    PyTypeObject *base = type;
    while (base->tp_traverse == class_traverse) {
        if (Py_SIZE(base) != 0) { /* number of slots that the class adds */
            return false;
        }
        base = base->tp_base;
    }
    if (base->tp_traverse != NULL) {
        return false;
    }
    PyDictValues *stored = _PyObject_InlineValues(op);
    Py_ssize_t used = ((PyHeapTypeObject *)type)->ht_cached_keys->dk_nentries;
    *values =
        (cpy_references){stored->values, stored->valid ? Py_MIN(used, stored->capacity) : 0, 1};
    *dict = (PyObject *)_PyObject_GetManagedDict(op);
    return true;
#else
    (void)op, (void)class_traverse, (void)values, (void)dict;
    return false;
#endif
}

/* Where the storage of a container starts that is not part of the object; NULL: none. */
static inline const void *
cpy_storage(PyObject *op)
{
    if (PyList_CheckExact(op)) {
        return ((PyListObject *)op)->ob_item;
    }
    if (PyDict_CheckExact(op)) {
        return ((PyDictObject *)op)->ma_keys;
    }
    return NULL;
}

#endif
