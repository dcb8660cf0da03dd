/* The module pasture._native: its constants, and the methods of all topics (module.h).
 *
 * On an interpreter that is not supported it can still be imported: UNSUPPORTED then says
 * why, and there is nothing to call. So it is in a sub-interpreter: what the extension keeps belongs to
 * the main one, and there objects of both would meet. It ends with that one, too.
 */
#include "module.h"

#ifndef CPY_UNSUPPORTED

#include "cpython/layout.h"
#include "gc/collect.h"
#include "gc/finalizers.h"
#include "gc/frozen.h"
#include "gc/refcounts.h"
#include "gc/shown.h"
#include "process/exit.h"
#include "seal/containers.h"
#include "seal/ends.h"
#include "seal/hotcode.h"
#include "seal/immortal.h"
#include "seal/memory_types.h"
#include "seal/sealed.h"
#include "seal/specialize.h"
#include "process/leave.h"

static PyObject *
check_layout(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (layout_check() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
left_out(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *parts = layout_left_out();
    const char *why = leave_obstacle();
    if (parts == NULL || why == NULL) {
        return parts;
    }
    PyObject *row = Py_BuildValue("(ss)", "exit without finalization", why);
    /* not reached: a C library or an unwinder of another make */
    if (row == NULL || PyList_Append(parts, row) < 0) {
        Py_CLEAR(parts);
    }
    Py_XDECREF(row);
    return parts;
}

static PyObject *
private_fields(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return layout_describe();
}

#ifdef PASTURE_CHECK
static PyObject *
shift_field(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_ssize_t row, bytes, rows = 1;
    if (!PyArg_ParseTuple(args, "nn|n", &row, &bytes, &rows)
        || layout_shift((size_t)row, bytes, (size_t)rows) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
#endif

static PyMethodDef layout_methods[] = {
    {"check_layout", check_layout, METH_NOARGS, NULL},
    {"left_out", left_out, METH_NOARGS, NULL},
    {"private_fields", private_fields, METH_NOARGS, NULL},
#ifdef PASTURE_CHECK
    {"shift_field", shift_field, METH_VARARGS, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

/* What static variables keep of an interpreter is gone with it. Those that are left out keep what is the
   process's, or what all interpreters of one build have in common. */
static void
forget_ended_interpreter(void)
{
    collect_forget();
    finalizers_forget();
    refcounts_forget();
    frozen_forget();
    shown_forget();
    exit_forget();
    containers_forget();
    memory_types_forget();
    ends_forget();
    immortal_forget();
    sealed_forget();
    specialize_keep_first_run(false);
    specialize_runs_are_forgotten();
    (void)hotcode_choose(NULL, 0);
}

/* A program may end the interpreter and initialize it again. A mark in what ends with it, a dictionary of its
   own, shows that this one is new. A second import into the same one changes nothing. Returns 0, or -1
   with an exception set. */
static int
begin_life(void)
{
    static const char mark[] = "pasture._native";
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get()); /* borrowed */
    if (dict == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (cpy_dict_get_ascii(dict, mark) != NULL) {
        return 0;
    }
    forget_ended_interpreter();
    return PyDict_SetItemString(dict, mark, Py_True);
}

static int
add_methods(PyObject *module)
{
    PyMethodDef *tables[] = {layout_methods, module_seal_methods, module_gc_methods,
                             module_process_methods, module_image_methods};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tables); i++) {
        if (PyModule_AddFunctions(module, tables[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The code of why_unsupported(): a pasture.reasons.Reason. */
#define WHY "sub-interpreter"

static const char *
why_unsupported(void)
{
    bool is_main = PyInterpreterState_Get() == PyInterpreterState_Main();
    return is_main ? NULL : "this is a sub-interpreter, and pasture works on the main one alone";
}

static int
add_constants(PyObject *module)
{
    if (PyModule_AddObjectRef(module, "UNSUPPORTED", Py_None) < 0
        || PyModule_AddObjectRef(module, "WHY", Py_None) < 0
        || PyModule_AddObjectRef(module, "HAS_IMMORTALITY",
                                 CPY_HAS_IMMORTALITY ? Py_True : Py_False)
               < 0) {
        return -1;
    }
    return PyModule_AddIntConstant(module, "BUILT_FOR", CPY_BUILT_FOR);
}

#else /* CPY_UNSUPPORTED: never a module of methods */

#define WHY "unsupported"

static const char *
why_unsupported(void)
{
    return CPY_UNSUPPORTED;
}

static int
begin_life(void)
{
    return 0;
}

static int
add_methods(PyObject *Py_UNUSED(module))
{
    return 0;
}

static int
add_constants(PyObject *Py_UNUSED(module))
{
    return 0;
}

#endif

/* A module that says why it does nothing. */
static int
add_reason(PyObject *module, const char *reason)
{
    if (PyModule_AddStringConstant(module, "UNSUPPORTED", reason) < 0
        || PyModule_AddStringConstant(module, "WHY", WHY) < 0
        || PyModule_AddIntConstant(module, "HAS_IMMORTALITY", 0) < 0) {
        return -1;
    }
    return PyModule_AddIntConstant(module, "BUILT_FOR", CPY_BUILT_FOR);
}

static int
execute(PyObject *module)
{
    const char *reason = why_unsupported();
    if (reason != NULL) {
        return add_reason(module, reason);
    }
    return begin_life() < 0 || add_methods(module) < 0 ? -1 : add_constants(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
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
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
