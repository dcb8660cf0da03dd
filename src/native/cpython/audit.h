/* Hooks of sys.addaudithook(), and taking one back, which CPython has no function for.
 *
 * Source: CPython 3.14 Python/sysmodule.c, sys_addaudithook_impl, should_audit.
 */
#ifndef PASTURE_CPYTHON_AUDIT_H
#define PASTURE_CPYTHON_AUDIT_H

#include "pycore.h"

#include "internal/pycore_interp.h"

/* Add the first hook. 1 if it can be taken back: the field where hooks are kept was empty before
   and is not now. 0, and nothing was added, if there is one already; -1 with an exception set. */
static inline int
cpy_add_audit_hook(PyObject *hook)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyObject *add = PySys_GetObject("addaudithook");
    if (interpreter->audit_hooks != NULL || add == NULL) {
        return 0;
    }
    PyObject *added = PyObject_CallOneArg(add, hook);
    if (added == NULL) {
        return -1;
    }
    Py_DECREF(added);
    return interpreter->audit_hooks != NULL;
}

/* Afterwards the interpreter is one without hooks, unless others have been added meanwhile. Only
   after a call of the above that returned 1. */
static inline int
cpy_drop_audit_hook(PyObject *hook)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyObject *hooks = interpreter->audit_hooks;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks); i++) {
        if (PyList_GET_ITEM(hooks, i) == hook) {
            if (PyList_SetSlice(hooks, i, i + 1, NULL) < 0) {
                return -1;
            }
            break;
        }
    }
    if (PyList_GET_SIZE(hooks) == 0) {
        interpreter->audit_hooks = NULL;
        Py_DECREF(hooks);
    }
    return 0;
}

#endif
