/* Python's way to the collector: collections out of line, when full ones come, what is given
 * back after them, and what is in its lists.
 */
#include "../module.h"

#ifndef CPY_UNSUPPORTED

#include "collect.h"
#include "finalizers.h"
#include "instances.h"
#include "thresholds.h"
#include "trim.h"

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
    if (layout_require(LAYOUT_COLLECTOR) < 0) {
        return NULL;
    }
    struct _gc_runtime_state *gc = cpy_gc_state();
    const struct gc_generation *oldest = &cpy_gc_generations(gc)[CPY_GENERATIONS - 1];
    return Py_BuildValue("{s:i,s:i,s:n,s:n}", "count", oldest->count, "threshold",
                         oldest->threshold, "pending", gc->long_lived_pending, "total",
                         gc->long_lived_total);
}

static PyObject *
full_collection_pays(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(thresholds_collection_pays());
}

static PyObject *
forget_frozen(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(thresholds_forget_frozen());
}

static PyObject *
adapt_thresholds(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(thresholds_start());
}

static PyObject *
end_adapting_thresholds(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
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
instances(PyObject *Py_UNUSED(module), PyObject *types)
{
    if (!PyTuple_Check(types)) {
        return PyErr_Format(PyExc_TypeError, "types must be a tuple");
    }
    return instances_find(types);
}

/* Without a reference to any of them, as gc.get_objects() takes: that writes to each. */
static PyObject *
unfrozen_objects(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (layout_require(LAYOUT_COLLECTOR) < 0) {
        return NULL;
    }
    size_t count = 0;
    for (int i = 0; i < CPY_GENERATIONS; i++) {
        count += cpy_gc_count_up_to(cpy_gc_generation(cpy_gc_state(), i), SIZE_MAX);
    }
    return PyLong_FromSize_t(count);
}

/* Whether now, or when the interpreter lets go of all modules. */
static PyObject *
finalize_before_modules(PyObject *Py_UNUSED(module), PyObject *now)
{
    int truth = PyObject_IsTrue(now);
    if (truth < 0 || (truth ? finalizers_run() : finalizers_arm()) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef module_gc_methods[] = {
    {"collect", collect, METH_O, NULL},
    {"watch_collections", watch_collections, METH_O, NULL},
    {"is_watching_collections", is_watching_collections, METH_NOARGS, NULL},
    {"is_collecting", is_collecting, METH_NOARGS, NULL},
    {"collection_history", collection_history, METH_NOARGS, NULL},
    {"full_collection_rule", full_collection_rule, METH_NOARGS, NULL},
    {"full_collection_pays", full_collection_pays, METH_NOARGS, NULL},
    {"forget_frozen", forget_frozen, METH_NOARGS, NULL},
    {"adapt_thresholds", adapt_thresholds, METH_NOARGS, NULL},
    {"end_adapting_thresholds", end_adapting_thresholds, METH_NOARGS, NULL},
    {"trim_after_collections", trim_after_collections, METH_O, NULL},
    {"trim", trim, METH_NOARGS, NULL},
    {"instances", instances, METH_O, NULL},
    {"unfrozen_objects", unfrozen_objects, METH_NOARGS, NULL},
    {"finalize_before_modules", finalize_before_modules, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

#endif
