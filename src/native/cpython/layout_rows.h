/* Rows of the table of fields, and the objects that they are verified with. */
#ifndef PASTURE_LAYOUT_ROWS_H
#define PASTURE_LAYOUT_ROWS_H

#include "cpython.h"
#include "layout.h"

#ifndef CPY_UNSUPPORTED

#include <string.h>

/* Objects whose contents are known, while a call of known code runs. All are borrowed, and none is
   known to anybody else. */
typedef struct {
    PyObject *globals;   /* of the code that runs, and its locals */
    PyObject *look;      /* the function in C that is being called ... */
    PyObject *mark;      /* ... with this object, a list */
    PyObject *call;      /* the function in Python that calls it */
    PyObject *settle;    /* one that has not run yet */
    PyObject *read;      /* another one, which reads a global name */
    PyObject *later;     /* a third, whose first instruction is no RESUME */
    PyObject *generator; /* what it gave, which has not started */
    PyObject *dict;      /* {key: mark} */
    PyObject *key;       /* "pasture" */
    PyObject *instance;  /* of ModuleSpec, whose first attribute is `name`: key */
    PyObject *gc;        /* the module */
} layout_samples;

/* Whether a field is at `at` bytes in the structure that holds it. 1, or 0; anything, with an
   exception set, where it is not known. Reads nothing but samples, and what is readable. */
typedef int layout_verify(const layout_samples *samples, size_t at);

typedef struct {
    const char *field;
    const char *found;
    const char *verified;
    unsigned int parts; /* bits 1 << layout_part: what is left out where it cannot be verified */
    size_t offset;      /* per the headers */
    const size_t *in_place; /* or where it was found; NULL */
    layout_verify *verify;
} layout_row;

extern const layout_row layout_rows[];
extern const size_t layout_row_count;

enum { LAYOUT_MAX_ROWS = 128 };

/* The word that is `at` bytes behind `base`, which must be readable. */
static inline uintptr_t
layout_word(const void *base, size_t at)
{
    uintptr_t word;
    memcpy(&word, (const char *)base + at, sizeof word);
    return word;
}

static inline bool
layout_points_to(const void *base, size_t at, const void *expected)
{
    return layout_word(base, at) == (uintptr_t)expected;
}

/* Whether a field holds what an attribute of the object is. */
static inline int
layout_is_attribute(PyObject *op, size_t at, const char *name)
{
    PyObject *value = PyObject_GetAttrString(op, name);
    Py_XDECREF(value); /* the field keeps it alive */
    return value == NULL ? -1 : layout_points_to(op, at, value);
}

static inline PyCodeObject *
layout_code_of(PyObject *function)
{
    return (PyCodeObject *)PyFunction_GET_CODE(function);
}

/* layout_collector.c */
int layout_find_collector(void); /* or -1 with an exception set */
layout_verify layout_gc_head, layout_gc_state, layout_generations, layout_thresholds,
    layout_permanent, layout_callbacks, layout_collecting, layout_long_lived_total,
    layout_long_lived_pending;

/* layout_objects.c */
layout_verify layout_refcount, layout_flags, layout_str_state, layout_str_hash, layout_dict_keys,
    layout_keys_refcount, layout_keys_sizes, layout_keys_version, layout_keys_usable,
    layout_keys_used, layout_keys_indices, layout_cached_keys, layout_values_sizes,
    layout_values_first;

/* layout_code.c */
layout_verify layout_func_code, layout_consts, layout_names, layout_exceptiontable, layout_filename,
    layout_name, layout_qualname, layout_linetable, layout_localsplusnames, layout_localspluskinds,
    layout_weakreflist, layout_executors, layout_cached, layout_monitoring, layout_firsttraceable,
    layout_extra, layout_adaptive, layout_first_runs, layout_counters, layout_linearray,
    layout_linearray_entry_size, layout_warmup;

/* layout_running.c */
layout_verify layout_current_frame, layout_frame_code, layout_frame_previous, layout_frame_funcobj,
    layout_frame_locals, layout_frame_object, layout_frame_stack, layout_frame_owner,
    layout_frame_localsplus, layout_thread_dict, layout_thread_context;

/* layout_interpreter.c */
layout_verify layout_next_keys_version, layout_obmalloc, layout_arenas, layout_pool_class,
    layout_pool_count, layout_atexit_callbacks, layout_atexit_count;

#endif
#endif
