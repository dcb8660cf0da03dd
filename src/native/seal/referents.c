/* tp_traverse, and after it what the traversal of some builtin types leaves out. Types without it:
 * the members that they declare to be objects.
 *
 * Owns no state. Dictionaries and code objects are read from their layout alone. Everything here
 * can be read without allocating, since the seal must not change the heap that it walks.
 */
#include "referents.h"

#ifndef CPY_UNSUPPORTED

#include <descrobject.h>
#include <structmember.h> /* 3.11 has PyMemberDef there */

static int
visit_dict_items(PyObject *dict, visitproc visit, void *arg)
{
    PyObject *key, *value;
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    if (((PyDictObject *)dict)->ma_values == NULL && DK_IS_UNICODE(keys)) {
        PyDictUnicodeEntry *entry = DK_UNICODE_ENTRIES(keys), *end = entry + keys->dk_nentries;
        for (; entry < end; entry++) {
            if (entry->me_value != NULL) {
                Py_VISIT(entry->me_key);
                Py_VISIT(entry->me_value);
            }
        }
        return 0;
    }
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        Py_VISIT(key);
        Py_VISIT(value);
    }
    return 0;
}

static int
visit_function_names(PyFunctionObject *func, visitproc visit, void *arg)
{
    Py_VISIT(func->func_name);
    Py_VISIT(func->func_qualname);
    Py_VISIT(func->func_doc);
    Py_VISIT(func->func_module);
    return 0;
}

/* The traversal of types refuses static types, which never die: their dictionaries and
   tuples are read all the same. */
static bool
is_static_type(PyObject *op)
{
    return PyType_Check(op) && !(((PyTypeObject *)op)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

static int
visit_type(PyTypeObject *type, visitproc visit, void *arg)
{
    PyObject *dict = cpy_type_dict(type);
    if (dict != NULL) { /* not reached: a type that is found is ready, and has one */
        int result = visit(dict, arg);
        Py_DECREF(dict);
        if (result) {
            return result;
        }
    }
    Py_VISIT(type->tp_mro);
    Py_VISIT(type->tp_bases);
    Py_VISIT(type->tp_base);
    Py_VISIT(type->tp_cache);
    if (is_static_type((PyObject *)type)) {
        return 0;
    }
    PyHeapTypeObject *heap_type = (PyHeapTypeObject *)type;
    Py_VISIT(heap_type->ht_name);
    Py_VISIT(heap_type->ht_qualname);
    Py_VISIT(heap_type->ht_slots);
    Py_VISIT(heap_type->ht_module);
    PyDictKeysObject *keys = cpy_shared_keys(type);
    return keys != NULL ? cpy_shared_keys_visit(keys, visit, arg) : 0;
}

static int
visit_descriptor(PyDescrObject *descr, visitproc visit, void *arg)
{
    Py_VISIT(descr->d_type);
    Py_VISIT(descr->d_name);
    Py_VISIT(descr->d_qualname);
    return 0;
}

static bool
is_descriptor(PyTypeObject *type)
{
    return type == &PyMethodDescr_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type
           || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type;
}

/* Referents that the traversal of a builtin type leaves out. */
static int
visit_untraversed(PyObject *op, visitproc visit, void *arg)
{
    PyTypeObject *type = Py_TYPE(op);
    if (type == &PyFunction_Type) {
        return visit_function_names((PyFunctionObject *)op, visit, arg);
    }
    if (PyType_Check(op)) {
        return visit_type((PyTypeObject *)op, visit, arg);
    }
    if (cpy_is_dict(op)) {
        return visit_dict_items(op, visit, arg);
    }
    if (is_descriptor(type)) {
        return visit_descriptor((PyDescrObject *)op, visit, arg);
    }
    return 0;
}

/* The attribute that getattr() would read. The names that 3.12 gave to the kinds are not in 3.11's headers. */
static bool
is_object_member(const PyMemberDef *member)
{
    enum { MEMBER_OBJECT = 6, MEMBER_OBJECT_EX = 16 };
    return member->type == MEMBER_OBJECT || member->type == MEMBER_OBJECT_EX;
}

static int
visit_members(PyObject *op, visitproc visit, void *arg)
{
    for (PyTypeObject *type = Py_TYPE(op); type != NULL; type = type->tp_base) {
        const PyMemberDef *member = type->tp_members;
        for (; member != NULL && member->name != NULL; member++) {
            if (is_object_member(member)) {
                Py_VISIT(*(PyObject **)((char *)op + member->offset));
            }
        }
    }
    return 0;
}

int
referents_visit(PyObject *op, visitproc visit, void *arg)
{
    PyTypeObject *type = Py_TYPE(op);
    if (type == &PyDict_Type) {
        return visit_dict_items(op, visit, arg);
    }
    if (type == &PyCode_Type) {
        return cpy_code_visit((PyCodeObject *)op, visit, arg);
    }
    if (type->tp_traverse == NULL) {
        return visit_members(op, visit, arg);
    }
    if (!is_static_type(op)) {
        int result = type->tp_traverse(op, visit, arg);
        if (result) {
            return result;
        }
    }
    return type == &PyTuple_Type || type == &PyList_Type ? 0 : visit_untraversed(op, visit, arg);
}

#endif
