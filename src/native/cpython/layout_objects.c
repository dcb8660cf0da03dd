/* Verifies what objects and key tables hold besides what CPython's public structures name. */
#include "debug_offsets.h"
#include "layout_rows.h"
#include "readable.h"

#ifndef CPY_UNSUPPORTED

/* --- Reference counts -------------------------------------------------------------------- */

/* Whether the interpreter's own functions change the count at `at`. */
static bool
is_counted(PyObject *op, size_t at)
{
    uint32_t before, during;
    memcpy(&before, (char *)op + at, sizeof before);
    Py_IncRef(op);
    memcpy(&during, (char *)op + at, sizeof during);
    Py_DecRef(op);
    return during == before + 1;
}

int
layout_refcount(const layout_samples *Py_UNUSED(samples), size_t at)
{
    PyObject *op = PyList_New(0);
    if (op == NULL) {
        return -1;
    }
    bool right = is_counted(op, at);
#if CPY_HAS_IMMORTALITY
    PyObject before;
    memcpy(&before, op, sizeof before);
    cpy_make_immortal(op);
    right = right && !is_counted(op, at);
#  if PY_VERSION_HEX >= 0x030E0000
    right = right && PyUnstable_IsImmortal(op);
#  endif
    memcpy(op, &before, sizeof before);
#endif
    Py_DECREF(op);
    return right;
}

/* Objects that are immortal from the start have the flag; new ones have not. */
int
layout_flags(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *const flagged[] = {Py_None, Py_True, Py_Ellipsis};
    uint16_t flags;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(flagged); i++) {
        memcpy(&flags, (char *)flagged[i] + at, sizeof flags);
        if (!(flags & _Py_IMMORTAL_FLAGS)) {
            return 0;
        }
    }
    memcpy(&flags, (char *)samples->mark + at, sizeof flags);
    return !(flags & _Py_IMMORTAL_FLAGS) && CPY_PUBLISHED(pyobject.ob_type, at + sizeof flags);
#else
    (void)samples, (void)at;
    return 1;
#endif
}

/* --- Strings ----------------------------------------------------------------------------- */

/* An interned string, a new one, and one that is not of ASCII. */
int
layout_str_state(const layout_samples *samples, size_t at)
{
    PyASCIIObject interned, fresh, wide;
    PyObject *copy = PyUnicode_FromString("pasture's own");
    PyObject *other = copy ? PyUnicode_FromString("pasture\u2019s own") : NULL;
    if (other == NULL) {
        Py_XDECREF(copy);
        return -1;
    }
    memcpy(&interned.state, (char *)samples->key + at, sizeof interned.state);
    memcpy(&fresh.state, (char *)copy + at, sizeof fresh.state);
    memcpy(&wide.state, (char *)other + at, sizeof wide.state);
    Py_DECREF(copy);
    Py_DECREF(other);
    return interned.state.interned != SSTATE_NOT_INTERNED
           && fresh.state.interned == SSTATE_NOT_INTERNED && fresh.state.compact
           && fresh.state.ascii && fresh.state.kind == PyUnicode_1BYTE_KIND
           && wide.state.interned == SSTATE_NOT_INTERNED && wide.state.compact && !wide.state.ascii
           && wide.state.kind == PyUnicode_2BYTE_KIND && CPY_PUBLISHED(unicode_object.state, at);
}

int
layout_str_hash(const layout_samples *samples, size_t at)
{
    return (Py_hash_t)layout_word(samples->key, at) == PyObject_Hash(samples->key);
}

/* --- Dictionaries and their keys --------------------------------------------------------- */

static const PyDictKeysObject *
keys_of(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_keys;
}

static bool
holds_entry(const PyDictKeysObject *keys, size_t indices, PyObject *key, PyObject *value)
{
    const char *entries = (const char *)keys + indices + (1 << 3);
    return layout_points_to(entries, offsetof(PyDictUnicodeEntry, me_key), key)
           && (value == NULL
               || layout_points_to(entries, offsetof(PyDictUnicodeEntry, me_value), value));
}

int
layout_dict_keys(const layout_samples *samples, size_t at)
{
    const PyDictKeysObject *keys = (const PyDictKeysObject *)layout_word(samples->dict, at);
    return readable(keys, sizeof *keys + 32)
           && holds_entry(keys, offsetof(PyDictKeysObject, dk_indices), samples->key, samples->mark)
           && CPY_PUBLISHED(dict_object.ma_keys, at);
}

/* Values of dk_log2_size, dk_log2_index_bytes, dk_kind: a table of 8, its indices of one byte each. */
static bool
has_sizes(PyObject *dict, size_t at, uint8_t kind)
{
    const uint8_t expected[] = {3, 3, kind};
    return memcmp((const char *)keys_of(dict) + at, expected, sizeof expected) == 0;
}

int
layout_keys_sizes(const layout_samples *samples, size_t at)
{
    PyObject *general = Py_BuildValue("{OO}", Py_None, Py_None);
    bool right = general != NULL && has_sizes(general, at, DICT_KEYS_GENERAL)
                 && has_sizes(samples->dict, at, DICT_KEYS_UNICODE);
    Py_XDECREF(general);
    return general == NULL ? -1 : right;
}

/* Whether a second key changes what is `at` in the keys of a dictionary with one. */
static int
is_changed_by_a_key(const layout_samples *samples, size_t at, uintptr_t from, uintptr_t to)
{
    PyObject *dict = Py_BuildValue("{sO}", "one", samples->mark);
    if (dict == NULL) {
        return -1;
    }
    uintptr_t before = layout_word(keys_of(dict), at);
    int done = PyDict_SetItemString(dict, "another", samples->mark);
    uintptr_t after = layout_word(keys_of(dict), at);
    Py_DECREF(dict);
    return done < 0 ? -1 : before == from && after == to;
}

int
layout_keys_usable(const layout_samples *samples, size_t at)
{
    return is_changed_by_a_key(samples, at, 4, 3); /* of 5 */
}

int
layout_keys_used(const layout_samples *samples, size_t at)
{
    return is_changed_by_a_key(samples, at, 1, 2);
}

int
layout_keys_indices(const layout_samples *samples, size_t at)
{
    return holds_entry(keys_of(samples->dict), at, samples->key, samples->mark);
}

/* --- What instances of a class share ----------------------------------------------------- */

/* Which of the keys in a table is `name`; -1: none is. */
static Py_ssize_t
index_of(const PyDictKeysObject *keys, PyObject *name)
{
    Py_ssize_t count = Py_MIN(keys->dk_nentries, SHARED_KEYS_MAX_SIZE);
    const char *entries = (const char *)keys + offsetof(PyDictKeysObject, dk_indices)
                          + ((size_t)1 << Py_MIN(keys->dk_log2_index_bytes, 8));
    for (Py_ssize_t i = 0; i < count && readable(entries, 16 * (size_t)count); i++) {
        if (layout_points_to(entries, (size_t)i * sizeof(PyDictUnicodeEntry), name)) {
            return i;
        }
    }
    return -1;
}

/* Where the keys `at` in the type of the instance have its attribute `name`; -1 where
   there are no such keys. */
static Py_ssize_t
index_of_name(const layout_samples *samples, size_t at)
{
    const PyDictKeysObject *keys =
        (const PyDictKeysObject *)layout_word(Py_TYPE(samples->instance), at);
    PyObject *name = PyUnicode_InternFromString("name");
    bool right =
        name != NULL && readable(keys, sizeof *keys + 8) && keys->dk_kind == DICT_KEYS_SPLIT;
    Py_ssize_t index = right ? index_of(keys, name) : -1;
    Py_XDECREF(name);
    return index;
}

int
layout_cached_keys(const layout_samples *samples, size_t at)
{
    Py_ssize_t index = index_of_name(samples, at);
    return PyErr_Occurred() ? -1 : index >= 0;
}

/* A dictionary of an instance, which the first who asks for it makes, refers to them. */
int
layout_keys_refcount(const layout_samples *samples, size_t at)
{
    const void *keys = ((PyHeapTypeObject *)Py_TYPE(samples->instance))->ht_cached_keys;
    uintptr_t before = layout_word(keys, at);
    PyObject *dict = PyObject_GenericGetDict(samples->instance, NULL);
    Py_XDECREF(dict); /* the instance holds it */
    return dict == NULL ? -1 : layout_word(keys, at) == before + 1;
}

#if PY_VERSION_HEX >= 0x030D0000
static const char *
values_of(PyObject *instance)
{
    return (const char *)instance + Py_TYPE(instance)->tp_basicsize;
}
#endif

/* Values of capacity, size, embedded, valid: those of an instance that was just made. */
int
layout_values_sizes(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyTypeObject *type = Py_TYPE(samples->instance);
    if (!PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES)) {
        return 0;
    }
    const uint8_t *sizes = (const uint8_t *)values_of(samples->instance) + at;
    return sizes[0] >= 1 && sizes[0] <= SHARED_KEYS_MAX_SIZE && sizes[1] >= 1
           && sizes[1] <= sizes[0] && sizes[2] == 1 && sizes[3] == 1;
#else
    (void)samples, (void)at;
    return 1;
#endif
}

int
layout_values_first(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030D0000
    Py_ssize_t index = index_of_name(samples, offsetof(PyHeapTypeObject, ht_cached_keys));
    return index >= 0
           && layout_points_to(values_of(samples->instance), at + (size_t)index * sizeof(void *),
                               samples->key);
#else
    (void)samples, (void)at;
    return 1;
#endif
}

#endif

/* not reached in this file: each condition is an assertion about the interpreter, and holds in every build of it */
