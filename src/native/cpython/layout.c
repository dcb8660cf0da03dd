/* Goes through the table of fields, and keeps which parts of pasture are left out.
 *
 * The kind of the build comes first: before that is known nothing is read through a layout.
 */
#include "layout.h"

#include "cpython.h"
#include "layout_rows.h"
#include "layout_samples.h"

#ifndef CPY_UNSUPPORTED

/* Three arguments of a format. */
#define RUNNING Py_Version >> 24, Py_Version >> 16 & 255, Py_Version >> 8 & 255

#define REMEDY "`pip install --force-reinstall --no-binary pasture pasture` builds it here"

struct cpy_found cpy_found = {
    offsetof(PyInterpreterState, gc),
    offsetof(struct _gc_runtime_state, generations),
};

static enum { UNKNOWN, LOOKED } state;
static const layout_row
    *missing[LAYOUT_PARTS]; /* the first that leaves this part out; NULL: none */

static bool refuted[LAYOUT_MAX_ROWS];

#ifdef PASTURE_CHECK
static size_t first_shifted, shifted_rows;
static Py_ssize_t shifted_bytes;

static Py_ssize_t
shift_of(size_t row)
{
    return row - first_shifted < shifted_rows ? shifted_bytes : 0;
}

int
layout_shift(size_t row, Py_ssize_t bytes, size_t rows)
{
    if (row >= layout_row_count) {
        PyErr_SetString(PyExc_IndexError, "no such field");
        return -1;
    }
    first_shifted = row;
    shifted_rows = rows;
    shifted_bytes = bytes;
    state = UNKNOWN;
    return 0;
}
#else
static Py_ssize_t
shift_of(size_t Py_UNUSED(row))
{
    return 0;
}
#endif

/* --- The kind of the build ---------------------------------------------------------------- */

static const char *
kind(bool debug, bool traces)
{
    return traces ? "reference-tracing" : debug ? "debug" : "release";
}

static int
check_version(void)
{
    /* not reached: an extension that another version loads than it was built for */
    if (CPY_LAYOUT_FAMILY(Py_Version) == CPY_LAYOUT_FAMILY((unsigned long)PY_VERSION_HEX)) {
        return 0;
    }
    if (CPY_IS_INCREMENTAL(Py_Version)) { /* no build serves that */
        PyErr_SetString(PyExc_RuntimeError, CPY_INCREMENTAL);
        return -1;
    }
    PyErr_Format(PyExc_RuntimeError,
                 "this wheel was built for CPython %s, and this is %lu.%lu.%lu: " REMEDY,
                 PY_VERSION, RUNNING);
    return -1;
}

/* A debug build and one that traces references give objects and pools other sizes. The names
   in `sys` show which it is: nothing is read through an assumed layout before this. */
static int
check_kind_of_build(void)
{
#ifdef Py_DEBUG
    const bool built_for_debug = true;
#else
    const bool built_for_debug = false;
#endif
#ifdef Py_TRACE_REFS
    const bool built_for_traces = true;
#else
    const bool built_for_traces = false;
#endif
    bool is_debug = PySys_GetObject("gettotalrefcount") != NULL;
    bool is_tracing = PySys_GetObject("getobjects") != NULL;
    if (is_debug == built_for_debug && is_tracing == built_for_traces) {
        return 0;
    }
    PyErr_Format(PyExc_RuntimeError,
                 "this wheel was built for a %s build of CPython, and this is a %s one: " REMEDY,
                 kind(built_for_debug, built_for_traces), kind(is_debug, is_tracing));
    return -1;
}

/* --- The table ------------------------------------------------------------------------------ */

static size_t
place_of(const layout_row *row)
{
    return row->in_place != NULL ? *row->in_place : row->offset;
}

static void
leave_out(const layout_row *row)
{
    for (int part = 0; part < LAYOUT_PARTS; part++) {
        if (row->parts & 1u << part && missing[part] == NULL) {
            missing[part] = row;
        }
    }
}

/* Verifies each field. A row may rely on those before it. One that all depend on ends the search. */
static int
verify_rows(layout_samples *samples)
{
    if (layout_find_collector() < 0) {
        return -1;
    }
    for (size_t i = 0; i < layout_row_count && missing[LAYOUT_EVERYTHING] == NULL; i++) {
        const layout_row *row = &layout_rows[i];
        bool right = row->verify(samples, place_of(row) + (size_t)shift_of(i)) == 1;
        if (PyErr_Occurred()) { /* be it that nothing was refuted */
            return -1;
        }
        refuted[i] = !right;
        if (!right) {
            leave_out(row);
        }
    }
    return 0;
}

static int
refuse(const layout_row *row)
{
    PyErr_Format(PyExc_RuntimeError,
                 "this wheel was built for CPython %s, and %s is somewhere else in this build of "
                 "%lu.%lu.%lu: " REMEDY,
                 PY_VERSION, row->field, RUNNING);
    return -1;
}

int
layout_check(void)
{
    if (state == UNKNOWN) {
        memset(missing, 0, sizeof missing);
        if (check_version() < 0 /* not reached: what another version loads than it was built for */
            || check_kind_of_build() < 0 || layout_with_samples(verify_rows) < 0) {
            return -1;
        }
        state = LOOKED;
    }
    return missing[LAYOUT_EVERYTHING] ? refuse(missing[LAYOUT_EVERYTHING]) : 0;
}

/* --- What is left out --------------------------------------------------------------------- */

static const char *const names[LAYOUT_PARTS] = {
    [LAYOUT_EVERYTHING] = "everything",
    [LAYOUT_COLLECTOR] = "collections out of line",
    [LAYOUT_ROOTS] = "what running calls hold, as roots of collections",
    [LAYOUT_IMMORTALITY] = "immortal objects",
    [LAYOUT_CODE] = "gathered code",
    [LAYOUT_KEY_VERSIONS] = "versions of shared key tables",
    [LAYOUT_POOLS] = "plugging of pools",
    [LAYOUT_ARENAS] = "giving free pools back",
    [LAYOUT_ATEXIT] = "exit without finalization",
};

bool
layout_has(layout_part part)
{
    return state == LOOKED && missing[part] == NULL && missing[LAYOUT_EVERYTHING] == NULL;
}

bool
layout_refuted(const char *field)
{
    for (size_t i = 0; i < layout_row_count; i++) {
        if (refuted[i] && strcmp(layout_rows[i].field, field) == 0) {
            return true;
        }
    }
    return false;
}

static PyObject *
explain(layout_part part)
{
    const layout_row *row = missing[part] ? missing[part] : missing[LAYOUT_EVERYTHING];
    return PyUnicode_FromFormat(
        "%s is not where CPython %s has it, for which this was built: " REMEDY,
        row ? row->field : "what was not looked at", PY_VERSION);
}

int
layout_require(layout_part part)
{
    if (layout_has(part)) {
        return 0;
    }
    PyObject *why = explain(part);
    if (why != NULL) {
        PyErr_SetObject(PyExc_NotImplementedError, why);
        Py_DECREF(why);
    }
    return -1;
}

PyObject *
layout_left_out(void)
{
    PyObject *parts = PyList_New(0);
    for (int part = 0; parts != NULL && part < LAYOUT_PARTS; part++) {
        if (missing[part] == NULL) {
            continue;
        }
        PyObject *row = Py_BuildValue("(sN)", names[part], explain((layout_part)part));
        if (row == NULL || PyList_Append(parts, row) < 0) {
            Py_CLEAR(parts);
        }
        Py_XDECREF(row);
    }
    return parts;
}

/* New tuple of the parts that depend on a row. */
static PyObject *
parts_of(const layout_row *row)
{
    PyObject *parts = PyList_New(0);
    for (int part = 0; parts != NULL && part < LAYOUT_PARTS; part++) {
        if (!(row->parts & 1u << part)) {
            continue;
        }
        PyObject *name = PyUnicode_FromString(names[part]);
        if (name == NULL || PyList_Append(parts, name) < 0) {
            Py_CLEAR(parts);
        }
        Py_XDECREF(name);
    }
    PyObject *tuple = parts != NULL ? PyList_AsTuple(parts) : NULL;
    Py_XDECREF(parts);
    return tuple;
}

PyObject *
layout_describe(void)
{
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < layout_row_count; i++) {
        const layout_row *row = &layout_rows[i];
        PyObject *described = Py_BuildValue("(sssNn)", row->field, row->found, row->verified,
                                            parts_of(row), (Py_ssize_t)place_of(row));
        if (described == NULL || PyList_Append(rows, described) < 0) {
            Py_CLEAR(rows);
        }
        Py_XDECREF(described);
    }
    return rows;
}

#endif
