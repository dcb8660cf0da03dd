/* Types: version tags, dictionaries, and types that are recognized by name or by kind. */
#ifndef PASTURE_CPYTHON_TYPE_H
#define PASTURE_CPYTHON_TYPE_H

#include "dict.h"
#include "pycore.h"

static inline unsigned int
cpy_type_version(PyTypeObject *type)
{
    return type->tp_version_tag;
}

/* New reference to the dictionary of `type`, or NULL without an exception. */
static inline PyObject *
cpy_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(type);
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

/* Whether an attribute can be looked up without running code of a key, in the type and its bases. */
static inline bool
cpy_type_has_plain_keys(PyTypeObject *type)
{
    bool plain = true;
    for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *dict = cpy_type_dict((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i));
        plain = dict == NULL || cpy_dict_has_plain_keys(dict);
        Py_XDECREF(dict);
    }
    return plain;
}

/* Make the interpreter give `type` a version tag; it may decline. */
static inline void
cpy_type_assign_version(PyTypeObject *type, PyObject *any_name)
{
#if PY_VERSION_HEX >= 0x030C0000
    (void)any_name;
    (void)PyUnstable_Type_AssignVersionTag(type);
#else
    if (cpy_type_has_plain_keys(type)) {
        (void)_PyType_Lookup(type, any_name); /* a cacheable lookup assigns one */
    }
#endif
}

/* A type that a module holds: a new reference, or NULL with an exception set. */
static inline PyTypeObject *
cpy_find_type(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *type = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return (PyTypeObject *)type;
}

/* Whether a class, or one that it derives from, has that attribute under an exact string. Runs no code of the
   class, allocates nothing. */
static inline bool
cpy_type_has(PyTypeObject *type, const char *name)
{
    bool found = false;
    for (Py_ssize_t i = 0; !found && i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *dict = cpy_type_dict((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i));
        found = dict != NULL && cpy_dict_get_ascii(dict, name) != NULL;
        Py_XDECREF(dict);
    }
    return found;
}

/* Frames, generators and coroutines: they end, and what ends must be let go. */
static inline bool
cpy_is_running_thing(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return type == &PyFrame_Type || type == &PyGen_Type || type == &PyCoro_Type
           || type == &PyAsyncGen_Type;
}

/* Whether `op` is a file: its type derives from `base`, which is _io._IOBase. All such types have a
   finalizer, and few others do. */
static inline bool
cpy_is_file(PyObject *op, PyTypeObject *base)
{
    PyTypeObject *type = Py_TYPE(op);
    return type->tp_finalize != NULL && PyType_IsSubtype(type, base);
}

/* New reference to what a weak reference refers to, or NULL if that is gone. Sets no exception. */
static inline PyObject *
cpy_weakref_target(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *target;
    (void)PyWeakref_GetRef(reference, &target); /* cannot fail: it is one */
    return target;
#else
    PyObject *target = PyWeakref_GET_OBJECT(reference);
    return Py_IsNone(target) ? NULL : Py_NewRef(target);
#endif
}

#endif
