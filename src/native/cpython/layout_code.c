/* Verifies code objects: against their attributes, and by what their first run changes. */
#include "debug_offsets.h"
#include "layout_rows.h"
#include "readable.h"

#ifndef CPY_UNSUPPORTED

static PyObject *
sample_code(const layout_samples *samples)
{
    return (PyObject *)layout_code_of(samples->call);
}

int
layout_func_code(const layout_samples *samples, size_t at)
{
    return layout_is_attribute(samples->call, at, "__code__");
}

#define IS_ATTRIBUTE(field) \
    int layout_##field(const layout_samples *samples, size_t at) \
    { \
        return layout_is_attribute(sample_code(samples), at, "co_" #field); \
    }
#define IS_PUBLISHED_ATTRIBUTE(field) \
    int layout_##field(const layout_samples *samples, size_t at) \
    { \
        return CPY_PUBLISHED(code_object.field, at) \
                   ? layout_is_attribute(sample_code(samples), at, "co_" #field) \
                   : 0; \
    }

IS_ATTRIBUTE(consts)
IS_ATTRIBUTE(names)
IS_ATTRIBUTE(exceptiontable)
IS_PUBLISHED_ATTRIBUTE(filename)
IS_PUBLISHED_ATTRIBUTE(name)
IS_PUBLISHED_ATTRIBUTE(qualname)
IS_PUBLISHED_ATTRIBUTE(linetable)

/* The names of the arguments, which this code has no other variables than. */
int
layout_localsplusnames(const layout_samples *samples, size_t at)
{
    PyObject *names = (PyObject *)layout_word(sample_code(samples), at);
    return readable(names, sizeof(PyTupleObject)) && PyTuple_CheckExact(names)
           && PyTuple_GET_SIZE(names) == 2
           && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "look") == 0
           && CPY_PUBLISHED(code_object.localsplusnames, at);
}

int
layout_localspluskinds(const layout_samples *samples, size_t at)
{
    PyObject *kinds = (PyObject *)layout_word(sample_code(samples), at);
    return readable(kinds, sizeof(PyBytesObject)) && PyBytes_CheckExact(kinds)
           && PyBytes_GET_SIZE(kinds) == 2 && CPY_PUBLISHED(code_object.localspluskinds, at);
}

int
layout_weakreflist(const layout_samples *samples, size_t at)
{
    PyObject *code = sample_code(samples);
    PyObject *reference = PyWeakref_NewRef(code, NULL);
    if (reference == NULL) {
        return -1;
    }
    bool right = layout_points_to(code, at, reference);
    Py_DECREF(reference);
    return right && layout_word(code, at) == 0;
}

/* Before the first run there are none; the fields on both sides are verified. */
int
layout_executors(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030D0000
    size_t cached = offsetof(PyCodeObject, _co_cached);
    return at - sizeof(void *) == offsetof(PyCodeObject, co_weakreflist)
           && at + sizeof(void *) == cached
           && layout_word(layout_code_of(samples->settle), at) == 0;
#else
    (void)samples, (void)at;
    return 1;
#endif
}

int
layout_cached(const layout_samples *samples, size_t at)
{
    PyCodeObject *code = layout_code_of(samples->call);
    PyObject *bytes = PyCode_GetCode(code);
    Py_XDECREF(bytes); /* cached */
    if (bytes == NULL) {
        return -1;
    }
#if PY_VERSION_HEX >= 0x030C0000
    const void *cached = (const void *)layout_word(code, at);
    return readable(cached, sizeof(_PyCoCached))
           && layout_points_to(cached, offsetof(_PyCoCached, _co_code), bytes);
#else
    return layout_points_to(code, at, bytes);
#endif
}

int
layout_monitoring(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030C0000
    const void *cached =
        (const void *)layout_word(layout_code_of(samples->call), at - 2 * sizeof(uintptr_t));
    return readable(cached, sizeof(_PyCoCached))
           && cached == layout_code_of(samples->call)->_co_cached;
#else
    (void)samples, (void)at;
    return 1;
#endif
}

/* Whether the field at `at`, which lies before the instructions, has the number of a RESUME, and there
   is one before that if `is_later`. */
static int
leads_to_resume(PyCodeObject *code, size_t at, bool is_later)
{
    int first;
    if (at >= (size_t)PyCode_Type.tp_basicsize) {
        return 0;
    }
    memcpy(&first, (char *)code + at, sizeof first);
    PyObject *bytes = PyCode_GetCode(code);
    if (bytes == NULL) {
        return -1;
    }
    bool right = first >= is_later && first < Py_SIZE(code)
                 && (uint8_t)PyBytes_AS_STRING(bytes)[2 * first] == RESUME;
    Py_DECREF(bytes);
    return right;
}

int
layout_firsttraceable(const layout_samples *samples, size_t at)
{
    int right = leads_to_resume(layout_code_of(samples->call), at, false);
    return right == 1 ? leads_to_resume(layout_code_of(samples->later), at, true) : right;
}

/* The last field before the instructions. */
int
layout_extra(const layout_samples *samples, size_t at)
{
    return at + sizeof(void *) == (size_t)PyCode_Type.tp_basicsize
           && layout_word(layout_code_of(samples->settle), at) == 0;
}

int
layout_adaptive(const layout_samples *samples, size_t at)
{
    PyCodeObject *code = layout_code_of(samples->settle);
    PyObject *bytes = PyCode_GetCode(code);
    if (bytes == NULL) {
        return -1;
    }
    const char *units = (const char *)code + at;
    bool right = at == (size_t)PyCode_Type.tp_basicsize && PyBytes_GET_SIZE(bytes) >= 2
                 && units[0] == PyBytes_AS_STRING(bytes)[0]
                 && CPY_PUBLISHED(code_object.co_code_adaptive, at);
    Py_DECREF(bytes);
    return right;
}

#if PY_VERSION_HEX >= 0x030C0000
/* Whether our lengths of its instructions lead through the interpreter's own form of `code`. */
static int
lengths_are_right(PyCodeObject *code)
{
    PyObject *bytes = PyCode_GetCode(code);
    if (bytes == NULL) {
        return -1;
    }
    bool same = true;
    Py_ssize_t i = 0;
    for (; i < Py_SIZE(code); i += cpy_instruction_units(_PyCode_CODE(code)[i])) {
        uint8_t plain = (uint8_t)PyBytes_AS_STRING(bytes)[2 * i];
        same = same && _PyOpcode_Deopt[_PyCode_CODE(code)[i].op.code] == plain;
    }
    Py_DECREF(bytes);
    return same && i == Py_SIZE(code);
}
#endif

#if PY_VERSION_HEX >= 0x030D0000
/* What instruction `at` units on in `code` is expected to be after its first run, or its own. */
static uint8_t
expected_opcode(PyCodeObject *code, Py_ssize_t i)
{
    _Py_CODEUNIT unit = _PyCode_CODE(code)[i];
    bool loads = cpy_loads_constant(unit) && unit.op.arg < PyTuple_GET_SIZE(code->co_consts);
    return cpy_first_run_opcode(unit,
                                loads ? PyTuple_GET_ITEM(code->co_consts, unit.op.arg) : NULL);
}

/* One run must change each instruction as we would. Nothing is learnt where a tool watches the
   code, or where traces are made. */
static int
compare_first_run(PyObject *function, PyCodeObject *code, size_t shift)
{
    uint8_t expected[64];
    Py_ssize_t count = Py_SIZE(code);
    if (count > (Py_ssize_t)sizeof expected) {
        return 0;
    }
    memset(expected, 0, sizeof expected);
    for (Py_ssize_t i = 0; i < count; i += cpy_instruction_units(_PyCode_CODE(code)[i])) {
        uint8_t after = expected_opcode(code, i);
        expected[i] = after != _PyCode_CODE(code)[i].op.code ? (uint8_t)(after + shift) : 0;
    }
    PyObject *result = PyObject_CallOneArg(function, Py_True);
    Py_XDECREF(result);
    if (result == NULL) {
        return -1;
    }
    if (!cpy_code_is_plain(code) || jit_makes_traces()) {
        return shift == 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (expected[i] != 0 && _PyCode_CODE(code)[i].op.code != expected[i]) {
            return 0;
        }
    }
    return 1;
}
#endif

int
layout_first_runs(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyCodeObject *code = layout_code_of(samples->settle);
    int right = lengths_are_right(code);
    return right == 1 ? compare_first_run(samples->settle, code, at) : right;
#else
    (void)samples, (void)at;
    return 1;
#endif
}

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
#  define COUNTERS_AT_MOST 4

/* Write the counters of `code` to `counters`. Returns how many it has, of the first few. */
static int
counters_of(PyCodeObject *code, uint16_t *counters)
{
    const _Py_CODEUNIT *units = _PyCode_CODE(code);
    int count = 0;
    Py_ssize_t length;
    for (Py_ssize_t i = 0; i < Py_SIZE(code) && count < COUNTERS_AT_MOST; i += length) {
        length = cpy_instruction_units(units[i]);
        if (length > 1) {
            counters[count++] = units[i + 1].cache;
        }
    }
    return count;
}

/* One run must move each counter of new code one down. Nothing is learnt where a tool watches the
   code. */
static int
compare_counters(PyObject *function, PyCodeObject *code, size_t shift)
{
    uint16_t before[COUNTERS_AT_MOST], after[COUNTERS_AT_MOST];
    int count = counters_of(code, before);
    bool right = count > 0 && !cpy_code_ran(code);
    PyObject *result = PyObject_CallNoArgs(function);
    Py_XDECREF(result);
    if (result == NULL) {
        return -1;
    }
    if (!cpy_code_is_plain(code)) {
        return shift == 0;
    }
    right = right && counters_of(code, after) == count && cpy_code_ran(code);
    for (int i = 0; i < count && right; i++) {
        right = after[i] == (uint16_t)(before[i] - (1 << ADAPTIVE_BACKOFF_BITS) + shift);
    }
    return right;
}

int
layout_counters(const layout_samples *samples, size_t at)
{
    PyCodeObject *code = layout_code_of(samples->read);
    int right = lengths_are_right(code);
    return right == 1 ? compare_counters(samples->read, code, at) : right;
}
#endif

#if PY_VERSION_HEX < 0x030C0000
/* New code has none, and the fields on both sides are verified. */
int
layout_linearray(const layout_samples *samples, size_t at)
{
    return at == offsetof(PyCodeObject, _co_code) + sizeof(void *)
           && at + 2 * sizeof(void *) == offsetof(PyCodeObject, co_extra)
           && layout_word(layout_code_of(samples->settle), at) == 0;
}

static short
short_at(const void *start, size_t at)
{
    short value;
    memcpy(&value, (const char *)start + at, sizeof value);
    return value;
}

int
layout_linearray_entry_size(const layout_samples *samples, size_t at)
{
    return at == offsetof(PyCodeObject, co_warmup) + sizeof(short)
           && short_at(layout_code_of(samples->settle), at) == 0;
}

int
layout_warmup(const layout_samples *samples, size_t at)
{
    PyCodeObject *code = layout_code_of(samples->read);
    short before = short_at(code, at);
    PyObject *result = PyObject_CallNoArgs(samples->read);
    Py_XDECREF(result);
    if (result == NULL) {
        return -1;
    }
    return before == QUICKENING_INITIAL_WARMUP_VALUE && short_at(code, at) == before + 1;
}
#endif

#endif

/* not reached in this file: each condition is an assertion about the interpreter, and holds in every build of it */
