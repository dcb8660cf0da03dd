/* The table of private fields: how each is found, how it is verified, what is left out without it.
 *
 * "Headers" are those that the extension was compiled with. "Public" is a function or an attribute
 * that CPython documents, or its own debug offsets (3.13), which it publishes for debuggers.
 * What its public structures name (PyObject, PyTypeObject, PyListObject, ...) keeps its place
 * within a minor version and is not listed, except fields that this extension writes.
 * docs/internals/layouts.md says why fields are verified, and what else depends on layouts.
 */
#include "layout_rows.h"

#ifndef CPY_UNSUPPORTED

#define ALL (1u << LAYOUT_EVERYTHING)
#define COLLECTOR (1u << LAYOUT_COLLECTOR)
#define ROOTS (1u << LAYOUT_ROOTS)
#define IMMORTALITY (1u << LAYOUT_IMMORTALITY)
#define CODE (1u << LAYOUT_CODE)
#define KEY_VERSIONS (1u << LAYOUT_KEY_VERSIONS)
#define POOLS (1u << LAYOUT_POOLS)
#define ARENAS (1u << LAYOUT_ARENAS)
#define ATEXIT (1u << LAYOUT_ATEXIT)

/* Fields for immortality, too, which gives instructions the form of their first run. */
#if CPY_HAS_FIRST_RUN_REWRITES
#  define RUNNING_CODE (CODE | IMMORTALITY)
#else
#  define RUNNING_CODE CODE
#endif

#define HEADERS "headers"
#define PUBLISHED "debug offsets (3.13), headers"

#define ROW(holder, field, found, verified, parts, verify) \
    {#holder "." #field, found, verified, parts, offsetof(holder, field), NULL, verify}
#define INTERP(field, found, verified, parts, verify) \
    {"PyInterpreterState." #field,        found, verified, parts, \
     offsetof(PyInterpreterState, field), NULL,  verify}
#define GC(field, found, verified, parts, verify) \
    {"_gc_runtime_state." #field, \
     found, \
     verified, \
     parts, \
     offsetof(struct _gc_runtime_state, field), \
     NULL, \
     verify}
#define FRAME(field, verified, verify) \
    {"_PyInterpreterFrame." #field, \
     HEADERS, \
     verified, \
     ROOTS | IMMORTALITY, \
     offsetof(struct _PyInterpreterFrame, field), \
     NULL, \
     verify}

const layout_row layout_rows[] = {
    /* The collector. */
    ROW(PyGC_Head, _gc_next, HEADERS, "a new list joins its neighbours, and leaves them untracked",
        ALL, layout_gc_head),
    {"PyInterpreterState.gc", PUBLISHED, "its generation0 is the list that new objects join", ALL,
     0, &cpy_found.gc_state, layout_gc_state},
    {"_gc_runtime_state.generations", "the list that a new object joined",
     "generation0; each list is closed", ALL, 0, &cpy_found.generations, layout_generations},
    ROW(struct gc_generation, threshold, HEADERS, "gc.get_threshold()", ALL, layout_thresholds),
    GC(permanent_generation, HEADERS,
       "a closed list behind generation0, empty as gc.get_freeze_count() says", ALL,
       layout_permanent),
    GC(callbacks, HEADERS, "gc.callbacks", COLLECTOR, layout_callbacks),
    GC(collecting, PUBLISHED, "0, and gc.garbage is behind it", COLLECTOR, layout_collecting),
    GC(long_lived_total, HEADERS, "a count next to gc.callbacks (3.14: before generation0)",
       COLLECTOR, layout_long_lived_total),
    GC(long_lived_pending, HEADERS, "a count next to gc.callbacks (3.14: before generation0)",
       COLLECTOR, layout_long_lived_pending),

    /* Objects. */
    ROW(PyObject, ob_refcnt, HEADERS, "Py_IncRef(), of a mortal and of an immortal object",
        IMMORTALITY, layout_refcount),
#if PY_VERSION_HEX >= 0x030E0000
    ROW(PyObject, ob_flags, HEADERS, "set in None, True, Ellipsis, not in a new list", IMMORTALITY,
        layout_flags),
#endif
    ROW(PyASCIIObject, state, HEADERS, "of strings: interned, new, not of ASCII; debug offsets",
        IMMORTALITY, layout_str_state),
    ROW(PyASCIIObject, hash, HEADERS, "hash()", IMMORTALITY, layout_str_hash),
    ROW(PyDictObject, ma_keys, HEADERS, "its one key and value; debug offsets", ALL,
        layout_dict_keys),
    {"PyDictKeysObject.dk_log2_size, dk_log2_index_bytes, dk_kind", HEADERS,
     "those of dictionaries with one key, a string and another", ALL,
     offsetof(PyDictKeysObject, dk_log2_size), NULL, layout_keys_sizes},
    ROW(PyDictKeysObject, dk_usable, HEADERS, "4 of 5; one less with another key", ALL,
        layout_keys_usable),
    ROW(PyDictKeysObject, dk_nentries, HEADERS, "1; one more with another key", ALL,
        layout_keys_used),
    ROW(PyDictKeysObject, dk_indices, HEADERS, "the key and value behind them", ALL,
        layout_keys_indices),
    ROW(PyHeapTypeObject, ht_cached_keys, HEADERS, "the names of an instance's attributes", ALL,
        layout_cached_keys),
    ROW(PyDictKeysObject, dk_refcnt, HEADERS, "one more once an instance has a dictionary", ALL,
        layout_keys_refcount),
#if PY_VERSION_HEX >= 0x030D0000
    {"PyDictValues.capacity, size, embedded, valid", HEADERS, "those of a new instance", ALL, 0,
     NULL, layout_values_sizes},
    ROW(PyDictValues, values, HEADERS, "an instance's attribute", ALL, layout_values_first),
    INTERP(dict_state.next_keys_version, HEADERS,
           "an instruction that reads a global name takes the next version", KEY_VERSIONS,
           layout_next_keys_version),
    ROW(PyDictKeysObject, dk_version, HEADERS, "the version that this gave; 0 of a new dictionary",
        KEY_VERSIONS, layout_keys_version),
#endif

    /* Code. */
    ROW(PyFunctionObject, func_code, HEADERS, "__code__", ALL, layout_func_code),
    ROW(PyCodeObject, co_consts, HEADERS, "co_consts", ALL, layout_consts),
    ROW(PyCodeObject, co_names, HEADERS, "co_names", ALL, layout_names),
    ROW(PyCodeObject, co_exceptiontable, HEADERS, "co_exceptiontable", ALL, layout_exceptiontable),
    ROW(PyCodeObject, co_filename, HEADERS, "co_filename; debug offsets", ALL, layout_filename),
    ROW(PyCodeObject, co_name, HEADERS, "co_name; debug offsets", ALL, layout_name),
    ROW(PyCodeObject, co_qualname, HEADERS, "co_qualname; debug offsets", ALL, layout_qualname),
    ROW(PyCodeObject, co_linetable, HEADERS, "co_linetable; debug offsets", ALL, layout_linetable),
    ROW(PyCodeObject, co_localsplusnames, HEADERS, "names of the variables; debug offsets", ALL,
        layout_localsplusnames),
    ROW(PyCodeObject, co_localspluskinds, HEADERS, "one a variable; debug offsets", ALL,
        layout_localspluskinds),
#if PY_VERSION_HEX >= 0x030C0000
    ROW(PyCodeObject, _co_cached, HEADERS, "PyCode_GetCode()", ALL, layout_cached),
#else
    ROW(PyCodeObject, _co_code, HEADERS, "PyCode_GetCode()", ALL, layout_cached),
#endif
    ROW(PyCodeObject, co_weakreflist, HEADERS, "PyWeakref_NewRef()", RUNNING_CODE,
        layout_weakreflist),
    ROW(PyCodeObject, co_extra, HEADERS, "the last before the instructions", RUNNING_CODE,
        layout_extra),
    ROW(PyCodeObject, co_code_adaptive, HEADERS, "co_code; __basicsize__; debug offsets",
        RUNNING_CODE, layout_adaptive),
#if PY_VERSION_HEX >= 0x030C0000
    ROW(PyCodeObject, _co_monitoring, HEADERS, "two behind _co_cached", RUNNING_CODE,
        layout_monitoring),
#else
    ROW(PyCodeObject, _co_linearray, HEADERS, "between _co_code and co_extra", CODE,
        layout_linearray),
    ROW(PyCodeObject, _co_linearray_entry_size, HEADERS, "behind co_warmup", CODE,
        layout_linearray_entry_size),
    ROW(PyCodeObject, co_warmup, HEADERS, "one more after a run", CODE, layout_warmup),
#endif
#if PY_VERSION_HEX >= 0x030D0000
    ROW(PyCodeObject, co_executors, HEADERS, "between co_weakreflist and _co_cached", RUNNING_CODE,
        layout_executors),
    ROW(PyCodeObject, _co_firsttraceable, HEADERS, "leads to the code's RESUME", RUNNING_CODE,
        layout_firsttraceable),
    {"opcodes (RESUME, LOAD_CONST, JUMP_BACKWARD)", HEADERS, "what a first run makes of them",
     RUNNING_CODE, 0, NULL, layout_first_runs},
#elif PY_VERSION_HEX >= 0x030C0000
    {"opcodes (their lengths and counters)", HEADERS, "what a first run makes of them", CODE, 0,
     NULL, layout_counters},
#endif

/* Threads and frames. */
#if PY_VERSION_HEX >= 0x030D0000
    ROW(PyThreadState, current_frame, HEADERS, "the frame of the call; debug offsets",
        ROOTS | IMMORTALITY, layout_current_frame),
    FRAME(f_executable, "the function's __code__; debug offsets", layout_frame_code),
#else
    ROW(PyThreadState, cframe, HEADERS, "the frame of the call", ROOTS | IMMORTALITY,
        layout_current_frame),
    FRAME(f_code, "the function's __code__", layout_frame_code),
#endif
    FRAME(previous, "the frame of the caller; debug offsets", layout_frame_previous),
#if PY_VERSION_HEX >= 0x030C0000
    FRAME(f_funcobj, "the function, of a call and of a generator", layout_frame_funcobj),
#else
    FRAME(f_func, "the function, of a call and of a generator", layout_frame_funcobj),
#endif
    FRAME(f_locals, "the caller's globals", layout_frame_locals),
    FRAME(frame_obj, "PyThreadState_GetFrame()", layout_frame_object),
#if PY_VERSION_HEX >= 0x030E0000
    FRAME(stackpointer, "inside of the frame's stack", layout_frame_stack),
#else
    FRAME(stacktop, "inside of the frame's stack", layout_frame_stack),
#endif
    FRAME(owner, "of a call and of a generator; debug offsets", layout_frame_owner),
    FRAME(localsplus, "arguments of a call and of a generator; debug offsets",
          layout_frame_localsplus),
    ROW(PyThreadState, dict, HEADERS, "PyThreadState_GetDict()", ROOTS, layout_thread_dict),
    ROW(PyThreadState, context, HEADERS, "PyContext_Enter()", ROOTS, layout_thread_context),

/* Memory. */
#if CPY_HAS_ARENAS
    INTERP(obmalloc, HEADERS, "a new block lies in one of its arenas", ARENAS, layout_obmalloc),
    ROW(struct arena_object, freepools, HEADERS, "unused pools of each arena", ARENAS,
        layout_arenas),
#endif
    ROW(cpy_pool, szidx, HEADERS, "the sizes of two new blocks", POOLS | ARENAS, layout_pool_class),
    ROW(cpy_pool, ref, HEADERS, "one less when a block is freed", POOLS | ARENAS,
        layout_pool_count),

    /* The end. */
    INTERP(atexit.callbacks, HEADERS, "as many as atexit counts", ATEXIT, layout_atexit_callbacks),
#if PY_VERSION_HEX < 0x030E0000
    INTERP(atexit.ncallbacks, HEADERS, "as many as atexit counts", ATEXIT, layout_atexit_count),
#endif
};

const size_t layout_row_count = Py_ARRAY_LENGTH(layout_rows);
static_assert(Py_ARRAY_LENGTH(layout_rows) <= LAYOUT_MAX_ROWS, "each row can be refuted");

#endif
