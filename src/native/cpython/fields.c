/* The table of fields: one line a field, by the name that CPython's headers give it. Fields that
 * have no public structure are counted from a neighbour.
 *
 * Sizes, bits and masks have holders in parentheses.
 */
#include "fields.h"

#ifndef CPY_UNSUPPORTED

#  include <string.h>

#  include "layout.h"
#  include "pymalloc.h"
#  if PY_VERSION_HEX < 0x030C0000
#    include <structmember.h> /* PyMemberDef */
#  endif

#define CPY_FIELD(holder, type, field) \
    {holder, #field, offsetof(type, field), #type "." #field, NULL}
#define CPY_NUMBER(holder, name, number) {holder, name, (Py_ssize_t)(number), NULL, NULL}
#define CPY_FLAG(name) CPY_NUMBER("(type flags)", #name, __builtin_ctzl(Py_TPFLAGS_##name))
#define CPY_POOL(field) CPY_FIELD("(pool)", cpy_pool, field)
#define CPY_CODE(field) CPY_FIELD("code", PyCodeObject, field)
#define CPY_FUNC(field) CPY_FIELD("function", PyFunctionObject, field)
#define CPY_TYPE(field) CPY_FIELD("type", PyTypeObject, field)
#define CPY_HEAP_TYPE(field) CPY_FIELD("type", PyHeapTypeObject, field)
#define CPY_KEYS(field) CPY_FIELD("keys", PyDictKeysObject, field)
#define CPY_SET(field) CPY_FIELD("set", PySetObject, field)
#define CPY_WEAKREF(field) CPY_FIELD("weakref", PyWeakReference, field)

/* Masks of the bit fields of PyASCIIObject.state, in the word at its offset. */
#define CPY_STATE_MASK(field, ones) \
    static Py_ssize_t mask_of_##field(void) \
    { \
        PyASCIIObject string; \
        uint32_t word; \
        memset(&string, 0, sizeof string); \
        string.state.field = ones; \
        memcpy(&word, &string.state, sizeof word); \
        return (Py_ssize_t)word; \
    }
CPY_STATE_MASK(kind, 7)
CPY_STATE_MASK(compact, 1)
CPY_STATE_MASK(ascii, 1)
#undef CPY_STATE_MASK
static_assert(sizeof(((PyASCIIObject *)NULL)->state) >= sizeof(uint32_t), "a word");

const cpy_field cpy_fields[] = {
    CPY_FIELD("object", PyObject, ob_refcnt),
    CPY_FIELD("object", PyObject, ob_type),
    CPY_FIELD("object", PyVarObject, ob_size),
    CPY_FIELD("dict", PyDictObject, ma_used),
#if PY_VERSION_HEX >= 0x030E0000
    CPY_FIELD("dict", PyDictObject, _ma_watcher_tag),
#else
    CPY_NUMBER("dict", "ma_version_tag", offsetof(PyDictObject, ma_keys) - 8),
#endif
    CPY_FIELD("dict", PyDictObject, ma_keys),
    CPY_FIELD("dict", PyDictObject, ma_values),
    CPY_KEYS(dk_refcnt),
    CPY_KEYS(dk_log2_size),
    CPY_KEYS(dk_log2_index_bytes),
    CPY_KEYS(dk_kind),
    CPY_KEYS(dk_version),
    CPY_KEYS(dk_usable),
    CPY_KEYS(dk_nentries),
    CPY_KEYS(dk_indices),
    CPY_FIELD("values", PyDictValues, values),
    CPY_FIELD("list", PyListObject, ob_item),
    CPY_FIELD("list", PyListObject, allocated),
#if PY_VERSION_HEX >= 0x030E0000
    CPY_FIELD("tuple", PyTupleObject, ob_hash),
#endif
    CPY_FIELD("tuple", PyTupleObject, ob_item),
    CPY_FIELD("str", PyASCIIObject, length),
    CPY_FIELD("str", PyASCIIObject, hash),
    CPY_FIELD("str", PyASCIIObject, state),
    CPY_NUMBER("str", "ascii_data", sizeof(PyASCIIObject)),
    CPY_FIELD("str", PyCompactUnicodeObject, utf8_length),
    CPY_FIELD("str", PyCompactUnicodeObject, utf8),
    CPY_NUMBER("str", "compact_data", sizeof(PyCompactUnicodeObject)),
    CPY_NUMBER("bytes", "ob_shash", offsetof(PyBytesObject, ob_sval) - 8),
    CPY_FIELD("bytes", PyBytesObject, ob_sval),
    CPY_SET(fill),
    CPY_SET(used),
    CPY_SET(mask),
    CPY_SET(table),
    CPY_SET(hash),
    CPY_SET(finger),
    CPY_SET(smalltable),
    CPY_SET(weakreflist),
    CPY_WEAKREF(wr_object),
    CPY_WEAKREF(wr_callback),
    CPY_WEAKREF(hash),
    CPY_WEAKREF(wr_prev),
    CPY_WEAKREF(wr_next),
    CPY_NUMBER("module", "md_dict", sizeof(PyObject)),
    CPY_TYPE(tp_name),
    CPY_TYPE(tp_basicsize),
    CPY_TYPE(tp_itemsize),
    CPY_TYPE(tp_flags),
    CPY_TYPE(tp_weaklistoffset),
    CPY_TYPE(tp_members),
    CPY_TYPE(tp_base),
    CPY_TYPE(tp_dict),
    CPY_TYPE(tp_dictoffset),
    CPY_TYPE(tp_bases),
    CPY_TYPE(tp_mro),
    CPY_TYPE(tp_cache),
    CPY_TYPE(tp_subclasses),
    CPY_TYPE(tp_weaklist),
    CPY_TYPE(tp_version_tag),
#if PY_VERSION_HEX >= 0x030D0000
    /* The same word. */
    CPY_NUMBER("type", "tp_versions_used", offsetof(PyTypeObject, tp_versions_used) & ~(size_t)7),
#endif
    CPY_HEAP_TYPE(ht_name),
    CPY_HEAP_TYPE(ht_slots),
    CPY_HEAP_TYPE(ht_qualname),
    CPY_HEAP_TYPE(ht_cached_keys),
    CPY_HEAP_TYPE(ht_module),
    CPY_HEAP_TYPE(_spec_cache),
    CPY_NUMBER("type", "members", sizeof(PyHeapTypeObject)),
    CPY_FUNC(func_globals),
    CPY_FUNC(func_builtins),
    CPY_FUNC(func_name),
    CPY_FUNC(func_qualname),
    CPY_FUNC(func_code),
    CPY_FUNC(func_defaults),
    CPY_FUNC(func_kwdefaults),
    CPY_FUNC(func_closure),
    CPY_FUNC(func_doc),
    CPY_FUNC(func_dict),
    CPY_FUNC(func_weakreflist),
    CPY_FUNC(func_module),
    CPY_FUNC(func_annotations),
    CPY_FUNC(vectorcall),
    CPY_FUNC(func_version),
    CPY_CODE(co_consts),
    CPY_CODE(co_names),
    CPY_CODE(co_flags),
    CPY_CODE(co_filename),
    CPY_CODE(co_name),
    CPY_CODE(co_qualname),
    CPY_CODE(co_firstlineno),
    CPY_CODE(co_weakreflist),
#if PY_VERSION_HEX >= 0x030C0000
    CPY_CODE(co_version),
    CPY_CODE(_co_cached),
    CPY_CODE(_co_instrumentation_version),
    CPY_CODE(_co_monitoring),
#  if PY_VERSION_HEX >= 0x030D0000
    CPY_CODE(co_executors),
#  endif
#else
    CPY_CODE(_co_code),
#endif
    CPY_CODE(co_extra),
    CPY_CODE(co_code_adaptive),
    CPY_NUMBER("(code)", "unit_bytes", sizeof(_Py_CODEUNIT)),
    {"(str state)", "kind", 0, "PyASCIIObject.state", mask_of_kind},
    {"(str state)", "compact", 0, "PyASCIIObject.state", mask_of_compact},
    {"(str state)", "ascii", 0, "PyASCIIObject.state", mask_of_ascii},
#ifdef Py_TPFLAGS_INLINE_VALUES
    CPY_FLAG(INLINE_VALUES),
#endif
#ifdef Py_TPFLAGS_MANAGED_WEAKREF
    CPY_FLAG(MANAGED_WEAKREF),
#endif
    CPY_FLAG(MANAGED_DICT),
    CPY_FLAG(HEAPTYPE),
    CPY_FLAG(HAVE_GC),
    CPY_FLAG(TYPE_SUBCLASS),
    /* Bytes before the address of an object: what cpy_prefix_bytes() adds up. */
    CPY_NUMBER("(before)", "gc", sizeof(PyGC_Head)),
    CPY_NUMBER("(before)", "dict", sizeof(PyGC_Head) + sizeof(PyObject *)),
    CPY_NUMBER("(before)", "weakrefs", sizeof(PyGC_Head) + 2 * sizeof(PyObject *)),
    CPY_NUMBER("(keys)", "general", DICT_KEYS_GENERAL),
    CPY_NUMBER("(keys)", "general_entry_bytes", sizeof(PyDictKeyEntry)),
    CPY_NUMBER("(keys)", "unicode_entry_bytes", sizeof(PyDictUnicodeEntry)),
    CPY_NUMBER("(member)", "bytes", sizeof(PyMemberDef)),
    CPY_NUMBER("(member)", "name", offsetof(PyMemberDef, name)),
    CPY_NUMBER("(member)", "offset", offsetof(PyMemberDef, offset)),
    CPY_NUMBER("(pool)", "bytes", CPY_POOL_BYTES),
    CPY_NUMBER("(pool)", "header_bytes", sizeof(cpy_pool)),
    CPY_NUMBER("(pool)", "step_bytes", CPY_SMALL_BLOCK_STEP_BYTES),
    CPY_NUMBER("(pool)", "max_block_bytes", CPY_SMALL_BLOCK_MAX_BYTES),
    CPY_POOL(ref),
    CPY_POOL(freeblock),
    CPY_POOL(szidx),
    CPY_POOL(nextoffset),
    CPY_POOL(maxnextoffset),
};
#undef CPY_FIELD
#undef CPY_NUMBER
#undef CPY_FLAG
#undef CPY_POOL
#undef CPY_CODE
#undef CPY_FUNC
#undef CPY_TYPE
#undef CPY_HEAP_TYPE
#undef CPY_KEYS
#undef CPY_SET
#undef CPY_WEAKREF

const size_t cpy_field_count = Py_ARRAY_LENGTH(cpy_fields);

Py_ssize_t
cpy_field_value(const cpy_field *field)
{
    return field->find != NULL ? field->find() : field->offset;
}

bool
cpy_field_is_right(const cpy_field *field)
{
    return field->verified_as == NULL || !layout_refuted(field->verified_as);
}

#endif
