/* How large objects are, and which memory they own besides their own block. For the snapshot of
 * the heap. Nothing here runs Python code.
 */
#ifndef PASTURE_CPYTHON_STORAGE_H
#define PASTURE_CPYTHON_STORAGE_H

#include "dict.h"
#include "gc.h"
#include "pycore.h"

/* Bytes before an object that belong to it: the collector's header, and from it downwards
   the pointers to dictionary (or values) and weak references that the type manages. */
static inline size_t
cpy_prefix_bytes(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    size_t bytes = cpy_is_container(op) ? sizeof(PyGC_Head) : 0;
#if PY_VERSION_HEX >= 0x030C0000
    bytes += PyType_HasFeature(type, Py_TPFLAGS_PREHEADER) ? 2 * sizeof(void *) : 0;
#else
    bytes += PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT) ? 2 * sizeof(void *) : 0;
#endif
    return bytes;
}

static inline size_t
cpy_str_bytes(PyObject *op)
{
    PyASCIIObject *str = (PyASCIIObject *)op;
    if (!str->state.compact) {
        return sizeof(PyUnicodeObject);
    }
    size_t header = str->state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject);
    return header + (size_t)(str->length + 1) * str->state.kind;
}

static inline size_t
cpy_int_bytes(PyObject *op)
{
#if PY_VERSION_HEX >= 0x030C0000
    size_t digits = ((PyLongObject *)op)->long_value.lv_tag >> 3;
#else
    size_t digits = (size_t)Py_ABS(Py_SIZE(op));
#endif
    return (size_t)Py_TYPE(op)->tp_basicsize + (digits ? digits - 1 : 0) * sizeof(digit);
}

/* Room behind an object for the values of its attributes (3.13). */
static inline size_t
cpy_inline_values_bytes(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES) ? _PyInlineValuesSize(type) : 0;
#else
    (void)type;
    return 0;
#endif
}

/* Bytes from the address of an object on. Asks no Python code: at least what is written
   through the object itself, at most its block. */
static inline size_t
cpy_object_bytes(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (PyUnicode_CheckExact(op)) {
        return cpy_str_bytes(op);
    }
    if (PyLong_Check(op)) {
        return cpy_int_bytes(op);
    }
    if (PyType_Check(op) && !PyType_HasFeature((PyTypeObject *)op, Py_TPFLAGS_HEAPTYPE)) {
        return sizeof(PyTypeObject);
    }
    size_t bytes = (size_t)type->tp_basicsize;
    if (type->tp_itemsize > 0) {
        bytes += (size_t)Py_ABS(Py_SIZE(op)) * (size_t)type->tp_itemsize;
    }
    return bytes + cpy_inline_values_bytes(type);
}

static inline size_t
cpy_keys_bytes(const PyDictKeysObject *keys)
{
    size_t size = (size_t)1 << keys->dk_log2_size;
    size_t entry =
        keys->dk_kind == DICT_KEYS_GENERAL ? sizeof(PyDictKeyEntry) : sizeof(PyDictUnicodeEntry);
    return sizeof(PyDictKeysObject) + ((size_t)1 << keys->dk_log2_index_bytes)
           + (size << 1) / 3 * entry;
}

/* A piece of memory that an object owns without being an object. */
typedef enum {
    CPY_OBJECT = 0,
    CPY_DICT_KEYS = 1,
    CPY_DICT_VALUES = 2,
    CPY_LIST_ITEMS = 3,
    CPY_SET_TABLE = 4,
    CPY_SHARED_KEYS = 5,
    CPY_BYTES = 6,
} cpy_kind;

typedef int (*cpy_storage_visit)(cpy_kind kind, const void *start, size_t bytes, void *arg);

/* Values of a table whose keys are shared, in memory of their own. */
static inline int
cpy_values_visit(PyDictValues *values, PyDictKeysObject *keys, cpy_storage_visit visit, void *arg)
{
#if PY_VERSION_HEX >= 0x030D0000
    if (values->embedded) {
        return 0;
    }
    size_t capacity = values->capacity;
#else
    /* Only the bytes before the values hold their number, rounded: n + 2, up to a multiple of 8,
       in the last of them (Objects/dictobject.c, new_values). */
    size_t before = ((const uint8_t *)values)[-1];
    size_t capacity =
        Py_MAX(before - Py_MIN(before, 9), Py_MIN((size_t)keys->dk_nentries, before - 2));
#endif
    (void)keys;
    return visit(CPY_DICT_VALUES, values,
                 offsetof(PyDictValues, values) + capacity * sizeof(PyObject *), arg);
}

/* Call `visit` with each piece of memory that an object of a builtin type owns. */
static inline int
cpy_each_storage(PyObject *op, cpy_storage_visit visit, void *arg)
{
    if (cpy_is_dict(op)) {
        PyDictObject *dict = (PyDictObject *)op;
        int result = 0;
        if (dict->ma_values != NULL) {
            result = cpy_values_visit(dict->ma_values, dict->ma_keys, visit, arg);
        }
        bool shared = dict->ma_values != NULL;
        return result ? result
                      : visit(shared ? CPY_SHARED_KEYS : CPY_DICT_KEYS, dict->ma_keys,
                              cpy_keys_bytes(dict->ma_keys), arg);
    }
    if (PyList_Check(op)) {
        PyListObject *list = (PyListObject *)op;
        return list->ob_item == NULL ? 0
                                     : visit(CPY_LIST_ITEMS, list->ob_item,
                                             (size_t)list->allocated * sizeof(PyObject *), arg);
    }
    if (PyAnySet_Check(op)) {
        PySetObject *set = (PySetObject *)op;
        return set->table == set->smalltable
                   ? 0
                   : visit(CPY_SET_TABLE, set->table, (size_t)(set->mask + 1) * sizeof(setentry),
                           arg);
    }
    if (PyByteArray_Check(op)) {
        PyByteArrayObject *array = (PyByteArrayObject *)op;
        return array->ob_alloc == 0
                   ? 0
                   : visit(CPY_BYTES, array->ob_bytes, (size_t)array->ob_alloc, arg);
    }
    if (PyType_Check(op)) {
        PyDictKeysObject *keys = cpy_shared_keys((PyTypeObject *)op);
        return keys == NULL ? 0 : visit(CPY_SHARED_KEYS, keys, cpy_keys_bytes(keys), arg);
    }
    return 0;
}

#endif
