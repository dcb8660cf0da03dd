/* Compares assumed layouts with the running interpreter.
 *
 * Each check reads one fact twice: through the assumed layout, and through a public name. The kind
 * of the build comes first: before that is known nothing is read through a layout.
 */
#include "layout.h"

#include "cpython.h"

#ifndef CPY_UNSUPPORTED

static int
differs(const char *what)
{
    PyErr_Format(PyExc_RuntimeError,
                 "the interpreter's %s is not laid out as in the headers pasture was built with "
                 "(built for %x, running %s)",
                 what, PY_VERSION_HEX, Py_GetVersion());
    return -1;
}

static int
check_version(void)
{
    return CPY_LAYOUT_FAMILY(Py_Version) == CPY_LAYOUT_FAMILY((unsigned long)PY_VERSION_HEX)
               ? 0
               : differs("version family");
}

/* A debug build and one that traces references give objects and pools other sizes. Told from
   what `sys` offers: nothing is read through an assumed layout before this. */
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
                 "the extension was built for a %s build of the interpreter, and this is a %s one: "
                 "build it here with `pip install --no-binary pasture pasture`",
                 built_for_traces  ? "reference-tracing"
                 : built_for_debug ? "debug"
                                   : "release",
                 is_tracing ? "reference-tracing"
                 : is_debug ? "debug"
                            : "release");
    return -1;
}

/* The thresholds stand inside the collector's state, beside the heads of its lists. */
static int
check_thresholds(PyObject *gc_module)
{
    int thresholds[CPY_GENERATIONS];
    PyObject *tuple = PyObject_CallMethod(gc_module, "get_threshold", NULL);
    if (tuple == NULL) {
        return -1;
    }
    int parsed = PyArg_ParseTuple(tuple, "iii", &thresholds[0], &thresholds[1], &thresholds[2]);
    Py_DECREF(tuple);
    if (!parsed) {
        return -1;
    }
    struct _gc_runtime_state *state = cpy_gc_state();
    for (int i = 0; i < CPY_GENERATIONS; i++) {
        if (state->generations[i].threshold != thresholds[i]) {
            return differs("collector state");
        }
    }
    return 0;
}

/* A container just made stands at the end of the youngest generation. */
static int
check_lists(void)
{
    PyObject *newest = PyList_New(0);
    if (newest == NULL) {
        return -1;
    }
    PyGC_Head *young = cpy_gc_generation(cpy_gc_state(), 0);
    bool last =
        cpy_gc_prev(young) == cpy_gc_head(newest) && cpy_gc_next(cpy_gc_head(newest)) == young;
    Py_DECREF(newest);
    return last ? 0 : differs("youngest generation");
}

static int
check_permanent(PyObject *gc_module)
{
    PyObject *count = PyObject_CallMethod(gc_module, "get_freeze_count", NULL);
    if (count == NULL) {
        return -1;
    }
    bool counted_empty = PyLong_AsSsize_t(count) == 0;
    Py_DECREF(count);
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state());
    bool seen_empty = cpy_gc_next(list) == list;
    return counted_empty == seen_empty ? 0 : differs("permanent generation");
}

/* Where the out-of-line collector starts from, and what it exchanges during a collection. */
static int
check_roots(PyObject *gc_module)
{
    PyObject *garbage = PyObject_GetAttrString(gc_module, "garbage");
    PyObject *sys_module = PyImport_ImportModule("sys");
    struct _gc_runtime_state *state = cpy_gc_state();
    bool same = garbage != NULL && sys_module != NULL && cpy_modules() == PyImport_GetModuleDict()
                && cpy_sysdict() == PyModule_GetDict(sys_module) && state->garbage == garbage
                && PyList_CheckExact(state->callbacks);
    Py_XDECREF(garbage);
    Py_XDECREF(sys_module);
    return PyErr_Occurred() ? -1 : same ? 0 : differs("interpreter state");
}

static int
check_code(void)
{
    PyCodeObject *code = PyCode_NewEmpty("pasture", "layout", 1);
    if (code == NULL) {
        return -1;
    }
    PyObject *name = PyObject_GetAttrString((PyObject *)code, "co_name");
    PyObject *table = PyObject_GetAttrString((PyObject *)code, "co_linetable");
    bool same = name == code->co_name && table == code->co_linetable;
    Py_XDECREF(name);
    Py_XDECREF(table);
    Py_DECREF(code);
    return PyErr_Occurred() ? -1 : same ? 0 : differs("code object");
}

static int
check_atexit(void)
{
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *count = atexit ? PyObject_CallMethod(atexit, "_ncallbacks", NULL) : NULL;
    Py_XDECREF(atexit);
    if (count == NULL) {
        return -1;
    }
    bool same = PyLong_AsSsize_t(count) == cpy_atexit_count();
    Py_DECREF(count);
    return same ? 0 : differs("atexit state");
}

int
layout_check(void)
{
    if (check_version() < 0 || check_kind_of_build() < 0) {
        return -1;
    }
    PyObject *gc_module = PyImport_ImportModule("gc");
    if (gc_module == NULL) {
        return -1;
    }
    int result = check_thresholds(gc_module) < 0 || check_lists() < 0
                         || check_permanent(gc_module) < 0 || check_roots(gc_module) < 0
                         || check_code() < 0 || check_atexit() < 0
                     ? -1
                     : 0;
    Py_DECREF(gc_module);
    return result;
}

#endif
