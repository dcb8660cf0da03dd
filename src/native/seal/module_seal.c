/* Python's way to the steps of the seal, and to what an explanation of a sealed heap reads. */
#include "../module.h"

#ifndef CPY_UNSUPPORTED

#include "../gc/collect.h"
#include "../gc/refcounts.h"
#include "../gc/shown.h"
#include "containers.h"
#include "dead.h"
#include "ends.h"
#include "hotcode.h"
#include "immortal.h"
#include "memory_types.h"
#include "plug.h"
#include "snapshot.h"
#include "specialize.h"
#include "type_ends.h"
#include "types.h"

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
    if (layout_require(LAYOUT_IMMORTALITY) < 0) {
        return NULL;
    }
    if (!jit_can_forget_traces()) { /* not reached: a build that makes traces */
        PyErr_SetString(PyExc_NotImplementedError,
                        "traces that the JIT compiled for mortal constants cannot be taken back");
        return NULL;
    }
    bool minds = layout_has(LAYOUT_COLLECTOR); /* counts are looked at when collections begin */
    if ((minds && collect_mind_counts() < 0) || immortal_make_heap(&counts) < 0) {
        type_counts_clear(&counts.types);
        return NULL;
    }
    PyObject *types = type_counts_list(&counts.types);
    type_counts_clear(&counts.types);
    if (types == NULL) {
        return NULL;
    }
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:N}", "objects", counts.objects,
                         "hashes", counts.hashes, "instructions", counts.instructions, "key_tables",
                         counts.key_tables, "left_mortal", counts.left_mortal, "owners_left_out",
                         counts.owners_left_out, "containers", counts.containers,
                         "containers_failed", counts.containers_failed, "mortal_types", types);
#else
    PyErr_SetString(PyExc_NotImplementedError,
                    "objects can be immortal from CPython 3.12 on: on this version reading an "
                    "object still writes its reference count");
    return NULL;
#endif
}

static PyObject *
dead_objects(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if CPY_HAS_IMMORTALITY
    type_counts counts = {0};
    PyObject *types = dead_find(&counts) < 0 ? NULL : type_counts_list(&counts);
    type_counts_clear(&counts);
    return types;
#else
    return PyList_New(0);
#endif
}

static PyObject *
unfreeze_mortal(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if CPY_HAS_IMMORTALITY
    immortal_unfreeze_mortal();
    if (shown_begin() < 0) {
        return NULL;
    }
#endif
    Py_RETURN_NONE;
}

static PyObject *
register_owner(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *sample, *owned;
    if (!PyArg_ParseTuple(args, "O!OO:register_owner", &PyType_Type, &type, &sample, &owned)) {
        return NULL;
    }
    return PyBool_FromLong(ends_register_owner((PyTypeObject *)type, sample, owned));
}

static PyObject *
type_has_end(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        return PyErr_Format(PyExc_TypeError, "a type, not %s", Py_TYPE(type)->tp_name);
    }
#if CPY_HAS_IMMORTALITY
    if (type_ends_prepare() < 0) {
        return NULL;
    }
    type_end end = type_ends_look_up((PyTypeObject *)type);
    return PyBool_FromLong(end.finalizes || end.closes || end.foreign != NULL);
#else
    Py_RETURN_FALSE;
#endif
}

static PyObject *
memory_types(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if CPY_HAS_IMMORTALITY
    return memory_types_list();
#else
    return PyTuple_New(0);
#endif
}

static PyObject *
register_memory_type(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        return PyErr_Format(PyExc_TypeError, "a type, not %s", Py_TYPE(type)->tp_name);
    }
#if CPY_HAS_IMMORTALITY
    if (memory_types_register((PyTypeObject *)type) < 0) {
        return NULL;
    }
#endif
    Py_RETURN_NONE;
}

static PyObject *
register_container(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *iterate;
    if (!PyArg_ParseTuple(args, "O!O:register_container", &PyType_Type, &type, &iterate)
        || containers_register((PyTypeObject *)type, iterate) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
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
code_that_ran(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    scratch_stack found = {0};
    PyObject *addresses = NULL;
    if (hotcode_find(&found) == 0) {
        Py_ssize_t bytes = (Py_ssize_t)(found.count * sizeof(void *));
        addresses = PyBytes_FromStringAndSize((const char *)found.items, bytes);
    }
    scratch_stack_release(&found);
    return addresses;
}

static PyObject *
code_objects(PyObject *Py_UNUSED(module), PyObject *ran)
{
    int only_ran = PyObject_IsTrue(ran);
    scratch_stack found = {0};
    PyObject *codes = NULL;
    bool has_references = false;
    if (only_ran >= 0 && (only_ran ? hotcode_find(&found) : hotcode_all(&found)) == 0) {
        for (size_t i = 0; i < found.count; i++) {
            Py_INCREF((PyObject *)found.items[i]); /* the new list may have garbage collected */
        }
        has_references = true;
        codes = PyList_New((Py_ssize_t)found.count);
    }
    while (has_references && found.count > 0) {
        PyObject *code = scratch_stack_pop(&found);
        if (codes != NULL) {
            PyList_SET_ITEM(codes, (Py_ssize_t)found.count, code);
        }
        else {
            Py_DECREF(code);
        }
    }
    scratch_stack_release(&found);
    return codes;
}

static PyObject *
choose_code(PyObject *Py_UNUSED(module), PyObject *addresses)
{
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(addresses, &bytes, &length) < 0) {
        return NULL;
    }
    if (length % (Py_ssize_t)sizeof(void *) != 0) {
        PyErr_SetString(PyExc_ValueError, "addresses have 8 bytes each");
        return NULL;
    }
    if (hotcode_choose((const void *const *)bytes, (size_t)length / sizeof(void *)) < 0) {
        return NULL;
    }
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
    plug_malloc_report report;
    if (plug_malloc_holes(&report) < 0) {
        PyErr_Format(PyExc_NotImplementedError, "%s: %s", report.allocator, report.means);
        return NULL;
    }
    return Py_BuildValue("{s:n,s:n,s:s,s:s}", "blocks", (Py_ssize_t)report.counts.blocks, "bytes",
                         (Py_ssize_t)report.counts.bytes, "allocator", report.allocator, "means",
                         report.means);
}

static PyObject *
plug_pymalloc(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    plug_counts plugged = {0};
    if (layout_require(LAYOUT_POOLS) < 0) {
        return NULL;
    }
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
fix_counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    refcounts_restore();
    const refcounts_history *history = refcounts_get_history();
    return Py_BuildValue("{s:n,s:n,s:n,s:n}", "looks", (Py_ssize_t)history->looks, "counts",
                         (Py_ssize_t)history->counts, "fixed", (Py_ssize_t)history->restored,
                         "bytes", (Py_ssize_t)history->bytes);
}

static PyObject *
write_snapshot(PyObject *Py_UNUSED(module), PyObject *file)
{
    int fd = PyObject_AsFileDescriptor(file);
    Py_ssize_t records = fd < 0 ? -1 : snapshot_write(fd);
    return records < 0 ? NULL : PyLong_FromSsize_t(records);
}

static PyObject *
field_offsets(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (layout_check() < 0) {
        return NULL;
    }
    PyObject *fields = PyList_New(0);
    for (size_t i = 0; fields != NULL && i < cpy_field_count; i++) {
        const cpy_field *field = &cpy_fields[i];
        if (!cpy_field_is_right(field)) {
            continue;
        }
        PyObject *row = Py_BuildValue("(ssn)", field->holder, field->name, cpy_field_value(field));
        if (row == NULL || PyList_Append(fields, row) < 0) {
            Py_CLEAR(fields);
        }
        Py_XDECREF(row);
    }
    return fields;
}

PyMethodDef module_seal_methods[] = {
    {"precompute_types", precompute_types, METH_NOARGS, NULL},
    {"register_container", register_container, METH_VARARGS, NULL},
    {"register_owner", register_owner, METH_VARARGS, NULL},
    {"type_has_end", type_has_end, METH_O, NULL},
    {"memory_types", memory_types, METH_NOARGS, NULL},
    {"register_memory_type", register_memory_type, METH_O, NULL},
    {"dead_objects", dead_objects, METH_NOARGS, NULL},
    {"unfreeze_mortal", unfreeze_mortal, METH_NOARGS, NULL},
    {"immortalize", immortalize, METH_NOARGS, NULL},
    {"forget_code_runs", forget_code_runs, METH_NOARGS, NULL},
    {"keep_code_runs", keep_code_runs, METH_O, NULL},
    {"code_that_ran", code_that_ran, METH_NOARGS, NULL},
    {"code_objects", code_objects, METH_O, NULL},
    {"choose_code", choose_code, METH_O, NULL},
    {"gather_code", gather_code, METH_NOARGS, NULL},
    {"plug_malloc", plug_malloc, METH_NOARGS, NULL},
    {"plug_pymalloc", plug_pymalloc, METH_NOARGS, NULL},
    {"is_immortal", is_immortal, METH_O, NULL},
    {"fix_counts", fix_counts, METH_NOARGS, NULL},
    {"write_snapshot", write_snapshot, METH_O, NULL},
    {"field_offsets", field_offsets, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#endif
