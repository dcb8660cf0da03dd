/* Dictionaries and the key tables that instances of a class share. */
#ifndef PASTURE_CPYTHON_DICT_H
#define PASTURE_CPYTHON_DICT_H

#include "layout.h"
#include "pycore.h"

/* Whether `op` is a dictionary, or a frozen one (3.15): PyDict_Next() takes both. */
static inline bool
cpy_is_dict(PyObject *op)
{
#if PY_VERSION_HEX >= 0x030F0000
    return PyAnyDict_Check(op);
#else
    return PyDict_Check(op);
#endif
}

/* --- Names, looked up without running code of their keys ---------------------------------
 *
 * A key may be of a subclass of str whose __eq__ is written in Python, in any dictionary that a program can
 * fill: that of a class, of a module, of sys. PyDict_GetItem() would call it, in the midst of a walk.
 */

/* Whether all keys are exact strings. */
static inline bool
cpy_dict_has_plain_keys(PyObject *dict)
{
    return DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys);
}

/* Borrowed: what a dictionary has under `name`, an exact string, or NULL. Where a key is no exact string,
   NULL and `*is_unknown`. */
static inline PyObject *
cpy_dict_get(PyObject *dict, PyObject *name, bool *is_unknown)
{
    if (cpy_dict_has_plain_keys(dict)) {
        return PyDict_GetItemWithError(dict, name); /* compares strings: cannot fail */
    }
    *is_unknown = true;
    return NULL;
}

/* Borrowed: what a dictionary has under an exact string, or NULL. Looks at each key, allocates nothing. */
static inline PyObject *
cpy_dict_get_ascii(PyObject *dict, const char *name)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (PyUnicode_CheckExact(key) && PyUnicode_CompareWithASCIIString(key, name) == 0) {
            return value;
        }
    }
    return NULL;
}

/* --- Key tables -------------------------------------------------------------------------- */

/* The key table that instances of `type` share, or NULL. */
static inline PyDictKeysObject *
cpy_shared_keys(PyTypeObject *type)
{
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return NULL;
    }
    return ((PyHeapTypeObject *)type)->ht_cached_keys;
}

/* Call `visit` with each key of a shared table: all are strings. */
static inline int
cpy_shared_keys_visit(PyDictKeysObject *keys, visitproc visit, void *arg)
{
    if (keys->dk_kind != DICT_KEYS_SPLIT) {
        return 0;
    }
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key != NULL && visit(entries[i].me_key, arg) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Every new instance lowers `dk_usable` of its class's table until it is 1, so that what the
   first instances have becomes the layout of all. Go there at once for a class that has had
   an instance: later keys than those of the layout go to a dictionary of the instance. */
static inline void
cpy_shared_keys_settle(PyDictKeysObject *keys)
{
#if PY_VERSION_HEX >= 0x030D0000 /* the layout starts with the attributes the class assigns */
    Py_ssize_t instances = SHARED_KEYS_MAX_SIZE - keys->dk_nentries - keys->dk_usable;
    if (keys->dk_kind == DICT_KEYS_SPLIT && instances > 0 && keys->dk_usable > 1) {
        keys->dk_usable = 1;
    }
#else
    (void)keys;
#endif
}

/* The version of a table by which specialized instructions recognise it; it is given when one is
   specialized. Versions are few (some instructions have 16 bits for them): only while plenty are
   left. */
static inline void
cpy_keys_assign_version(PyDictKeysObject *keys)
{
#if PY_VERSION_HEX >= 0x030D0000
    uint32_t *next = &PyInterpreterState_Get()->dict_state.next_keys_version;
    if (layout_has(LAYOUT_KEY_VERSIONS) && keys->dk_version == 0 && *next != 0
        && *next < UINT16_MAX / 2) {
        keys->dk_version = (*next)++;
    }
#else
    (void)keys;
#endif
}

/* That of a shared table, of a class that has had an instance. */
static inline void
cpy_shared_keys_assign_version(PyDictKeysObject *keys)
{
#if PY_VERSION_HEX >= 0x030D0000
    Py_ssize_t instances = SHARED_KEYS_MAX_SIZE - keys->dk_nentries - keys->dk_usable;
    if (keys->dk_kind == DICT_KEYS_SPLIT && instances > 0) {
        cpy_keys_assign_version(keys);
    }
#else
    (void)keys;
#endif
}

/* That of the names of a module, which functions read as global ones. */
static inline void
cpy_module_assign_version(PyObject *module)
{
    PyObject *names = PyModule_GetDict(module);
    if (names != NULL && PyDict_CheckExact(names)) {
        PyDictKeysObject *keys = ((PyDictObject *)names)->ma_keys;
        if (keys->dk_kind == DICT_KEYS_UNICODE) {
            cpy_keys_assign_version(keys);
        }
    }
}

/* The count of a key table that is never freed. Read from the empty table, which is
   static: its value differs between versions and has no public name. */
static inline Py_ssize_t
cpy_immortal_keys_count(PyObject *empty_dict)
{
    return ((PyDictObject *)empty_dict)->ma_keys->dk_refcnt;
}

#endif
