/* The method table of pasture._native. No step is implemented here: a function parses its
 * arguments, calls its mechanism and turns counts into a dictionary. See _native.pyi for
 * the contract of each.
 */
#include "cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

#include "cpython/layout.h"
#include "gc/collect.h"
#include "gc/hide.h"
#include "gc/thresholds.h"
#include "gc/trim.h"
#include "process/exit.h"
#include "process/prctl.h"
#include "process/scratch.h"
#include "seal/hotcode.h"
#include "seal/immortal.h"
#include "seal/plug.h"
#include "seal/refcounts.h"
#include "seal/snapshot.h"
#include "seal/specialize.h"
#include "seal/types.h"

#include <errno.h>

static PyObject *
check_layout(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (layout_check() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
python_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Py_ssize_t count = 0;
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        count++;
    }
    return PyLong_FromSsize_t(count);
}

static PyObject *
precompute_types(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Py_ssize_t assigned = types_assign_versions();
    return assigned < 0 ? NULL : PyLong_FromSsize_t(assigned);
}

static PyObject *
immortalize(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if CPY_HAS_IMMORTALITY
    immortal_counts counts = {0};
    if (collect_mind_counts() < 0 || immortal_make_heap(&counts) < 0) {
        return NULL;
    }
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n}", "objects", counts.objects, "hashes",
                         counts.hashes, "instructions", counts.instructions, "key_tables",
                         counts.key_tables, "left_mortal", counts.left_mortal);
#else
    PyErr_SetString(PyExc_NotImplementedError,
                    "objects can be immortal from CPython 3.12 on: on this version reading an "
                    "object still writes its reference count");
    return NULL;
#endif
}

static PyObject *
forget_code_runs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    hotcode_forget();
    Py_RETURN_NONE;
}

static PyObject *
keep_code_runs(PyObject *Py_UNUSED(module), PyObject *keep)
{
    int on = PyObject_IsTrue(keep);
    if (on < 0) {
        return NULL;
    }
    specialize_keep_first_run(on);
    Py_RETURN_NONE;
}

static PyObject *
gather_code(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    hotcode_gathered gathered = {0};
    if (hotcode_gather(&gathered) < 0) {
        return NULL;
    }
    return Py_BuildValue("{s:n,s:n}", "codes", gathered.codes, "bytes", (Py_ssize_t)gathered.bytes);
}

static PyObject *
plugged_counts(const plug_counts *plugged)
{
    return Py_BuildValue("{s:n,s:n}", "blocks", (Py_ssize_t)plugged->blocks, "bytes",
                         (Py_ssize_t)plugged->bytes);
}

static PyObject *
plug_malloc(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    plug_counts plugged = {0};
    if (plug_malloc_holes(&plugged) < 0) {
        PyErr_SetString(PyExc_NotImplementedError,
                        "malloc does not serve this thread from glibc's main heap (another "
                        "allocator is preloaded or linked, this is not the main thread, other "
                        "code moves the program break, or there is no /proc)");
        return NULL;
    }
    return plugged_counts(&plugged);
}

static PyObject *
plug_pymalloc(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    plug_counts plugged = {0};
    if (plug_pymalloc_holes(&plugged) < 0) {
        const char *name = cpy_allocator_name();
        PyErr_Format(PyExc_NotImplementedError,
                     "objects are not allocated by plain pymalloc but by %s "
                     "(PYTHONMALLOC, a debug build or tracemalloc)",
                     name != NULL ? name : "hooked functions");
        return NULL;
    }
    return plugged_counts(&plugged);
}

static PyObject *
is_immortal(PyObject *Py_UNUSED(module), PyObject *op)
{
    return PyBool_FromLong(cpy_is_immortal(op));
}

static PyObject *
mend_counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    refcounts_restore();
    const refcounts_history *history = refcounts_get_history();
    return Py_BuildValue("{s:n,s:n,s:n,s:n}", "looks", (Py_ssize_t)history->looks, "counts",
                         (Py_ssize_t)history->counts, "mended", (Py_ssize_t)history->restored,
                         "bytes", (Py_ssize_t)history->bytes);
}

static PyObject *
mend_counts_if_due(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    refcounts_restore_if_due();
    Py_RETURN_NONE;
}

static PyObject *
write_census(PyObject *Py_UNUSED(module), PyObject *file)
{
    int fd = PyObject_AsFileDescriptor(file);
    Py_ssize_t records = fd < 0 ? -1 : snapshot_write(fd);
    return records < 0 ? NULL : PyLong_FromSsize_t(records);
}

static PyObject *
field_offsets(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *fields = PyList_New(0);
    for (size_t i = 0; fields != NULL && i < cpy_field_count; i++) {
        const cpy_field *field = &cpy_fields[i];
        PyObject *row = Py_BuildValue("(ssn)", field->holder, field->name, field->offset);
        if (row == NULL || PyList_Append(fields, row) < 0) {
            Py_CLEAR(fields);
        }
        Py_XDECREF(row);
    }
    return fields;
}

static PyObject *
atexit_run_last(PyObject *Py_UNUSED(module), PyObject *func)
{
    if (!PyCallable_Check(func)) {
        PyErr_SetString(PyExc_TypeError, "the function must be callable");
        return NULL;
    }
    if (exit_run_last(func) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
watch_system_exit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (exit_watch_system_exit() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
files(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return exit_files();
}

static PyObject *
leave(PyObject *Py_UNUSED(module), PyObject *status)
{
    long value = PyLong_AsLong(status);
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    exit_now((int)(value & 0xff));
}

static PyObject *
limit_leave(PyObject *Py_UNUSED(module), PyObject *args)
{
    int status, seconds;
    if (!PyArg_ParseTuple(args, "ii", &status, &seconds)) {
        return NULL;
    }
    exit_limit(status & 0xff, (unsigned int)Py_MAX(seconds, 1));
    Py_RETURN_NONE;
}

static PyObject *
lift_leave_limit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    exit_lift_limit();
    Py_RETURN_NONE;
}

static PyObject *
system_exit_code(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *code = exit_system_exit_code();
    if (code == NULL) {
        PyErr_SetString(PyExc_LookupError, "no SystemExit is ending the process");
    }
    return code;
}

static PyObject *
collect(PyObject *Py_UNUSED(module), PyObject *include_frozen)
{
    int frozen = PyObject_IsTrue(include_frozen);
    return frozen < 0 ? NULL : collect_now(frozen);
}

static PyObject *
watch_collections(PyObject *Py_UNUSED(module), PyObject *on)
{
    int watch = PyObject_IsTrue(on);
    if (watch < 0 || collect_watch(watch) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
is_watching_collections(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(collect_is_watching());
}

static PyObject *
is_collecting(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(collect_is_running());
}

static PyObject *
collection_history(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    const collect_history *history = collect_get_history();
    const hide_report *last = &history->last;
    return Py_BuildValue(
        "{s:n,s:n,s:n,s:O,s:n,s:n,s:n,s:n,s:K}", "collections", (Py_ssize_t)history->collections,
        "skipped", (Py_ssize_t)history->skipped, "declined", (Py_ssize_t)history->declined,
        "from_roots", last->from_roots ? Py_True : Py_False, "objects", (Py_ssize_t)last->objects,
        "remainder", (Py_ssize_t)last->unreached, "garbage", (Py_ssize_t)last->garbage,
        "scratch_bytes", (Py_ssize_t)last->scratch_bytes, "nanoseconds",
        (unsigned long long)last->nanoseconds);
}

static PyObject *
full_collection_rule(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    const struct gc_generation *oldest = &gc->generations[CPY_GENERATIONS - 1];
    return Py_BuildValue("{s:i,s:i,s:n,s:n}", "count", oldest->count, "threshold",
                         oldest->threshold, "pending", gc->long_lived_pending, "total",
                         gc->long_lived_total);
}

static PyObject *
forget_frozen(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(hide_forget_frozen());
}

static PyObject *
pace_full_collections(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(thresholds_start());
}

static PyObject *
end_pace(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    thresholds_stop();
    Py_RETURN_NONE;
}

static PyObject *
trim_after_collections(PyObject *Py_UNUSED(module), PyObject *on)
{
    int truth = PyObject_IsTrue(on);
    if (truth < 0) {
        return NULL;
    }
    collect_trim(truth);
    Py_RETURN_NONE;
}

static PyObject *
trim(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t bytes = trim_pools();
    trim_chunks();
    return PyLong_FromSize_t(bytes);
}

static PyObject *
none_or_os_error(int err)
{
    if (err) {
        errno = err;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *
adopt_orphans(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return none_or_os_error(prctl_adopt_orphans());
}

static PyObject *
die_with_parent(PyObject *Py_UNUSED(module), PyObject *signal)
{
    int number = (int)PyLong_AsLong(signal);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return none_or_os_error(prctl_die_with_parent(number));
}

#ifdef PASTURE_CHECK
static PyObject *
fail_scratch_after(PyObject *Py_UNUSED(module), PyObject *successes)
{
    long count = PyLong_AsLong(successes);
    if (count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    scratch_fail_after(count);
    Py_RETURN_NONE;
}
#endif

static PyMethodDef methods[] = {
    {"check_layout", check_layout, METH_NOARGS, NULL},
    {"python_threads", python_threads, METH_NOARGS, NULL},
    {"precompute_types", precompute_types, METH_NOARGS, NULL},
    {"immortalize", immortalize, METH_NOARGS, NULL},
    {"forget_code_runs", forget_code_runs, METH_NOARGS, NULL},
    {"keep_code_runs", keep_code_runs, METH_O, NULL},
    {"gather_code", gather_code, METH_NOARGS, NULL},
    {"plug_malloc", plug_malloc, METH_NOARGS, NULL},
    {"plug_pymalloc", plug_pymalloc, METH_NOARGS, NULL},
    {"is_immortal", is_immortal, METH_O, NULL},
    {"mend_counts", mend_counts, METH_NOARGS, NULL},
    {"mend_counts_if_due", mend_counts_if_due, METH_NOARGS, NULL},
    {"write_census", write_census, METH_O, NULL},
    {"field_offsets", field_offsets, METH_NOARGS, NULL},
    {"atexit_run_last", atexit_run_last, METH_O, NULL},
    {"watch_system_exit", watch_system_exit, METH_NOARGS, NULL},
    {"files", files, METH_NOARGS, NULL},
    {"leave", leave, METH_O, NULL},
    {"limit_leave", limit_leave, METH_VARARGS, NULL},
    {"lift_leave_limit", lift_leave_limit, METH_NOARGS, NULL},
    {"system_exit_code", system_exit_code, METH_NOARGS, NULL},
    {"collect", collect, METH_O, NULL},
    {"watch_collections", watch_collections, METH_O, NULL},
    {"is_watching_collections", is_watching_collections, METH_NOARGS, NULL},
    {"is_collecting", is_collecting, METH_NOARGS, NULL},
    {"collection_history", collection_history, METH_NOARGS, NULL},
    {"full_collection_rule", full_collection_rule, METH_NOARGS, NULL},
    {"forget_frozen", forget_frozen, METH_NOARGS, NULL},
    {"trim", trim, METH_NOARGS, NULL},
    {"pace_full_collections", pace_full_collections, METH_NOARGS, NULL},
    {"end_pace", end_pace, METH_NOARGS, NULL},
    {"trim_after_collections", trim_after_collections, METH_O, NULL},
    {"adopt_orphans", adopt_orphans, METH_NOARGS, NULL},
    {"die_with_parent", die_with_parent, METH_O, NULL},
#ifdef PASTURE_CHECK
    {"fail_scratch_after", fail_scratch_after, METH_O, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

static int
add_constants(PyObject *module)
{
    if (PyModule_AddObjectRef(module, "UNSUPPORTED", Py_None) < 0
        || PyModule_AddObjectRef(module, "HAS_IMMORTALITY",
                                 CPY_HAS_IMMORTALITY ? Py_True : Py_False)
               < 0) {
        return -1;
    }
    return PyModule_AddIntConstant(module, "BUILT_FOR", PY_VERSION_HEX);
}

#else /* CPY_UNSUPPORTED: a module that says why it does nothing */

static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};

static int
add_constants(PyObject *module)
{
    if (PyModule_AddStringConstant(module, "UNSUPPORTED", CPY_UNSUPPORTED) < 0
        || PyModule_AddIntConstant(module, "HAS_IMMORTALITY", 0) < 0) {
        return -1;
    }
    return PyModule_AddIntConstant(module, "BUILT_FOR", PY_VERSION_HEX);
}

#endif

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pasture._native",
    .m_doc = "Everything of pasture that touches the interpreter's memory.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
