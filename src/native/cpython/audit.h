/* Hooks of sys.addaudithook(), and taking one back, which CPython has no function for.
 *
 * Source: CPython 3.14 Python/sysmodule.c, sys_addaudithook_impl, should_audit.
 */
#ifndef PASTURE_CPYTHON_AUDIT_H
#define PASTURE_CPYTHON_AUDIT_H

#include "hooks.h"

/* The list of hooks, or NULL. */
static inline PyObject *
cpy_audit_hooks(void)
{
    return cpy_hooks(PyInterpreterState_Get()->audit_hooks);
}

/* Add a hook. 1 if it is in the list of hooks now, and can be taken back. 0 if it is not: another
   hook has refused it, or the list was not found. -1 with an exception set. */
static inline int
cpy_add_audit_hook(PyObject *hook)
{
    PyObject *add = PySys_GetObject("addaudithook");
    if (add == NULL) {
        return 0;
    }
    PyObject *added = PyObject_CallOneArg(add, hook);
    if (added == NULL) {
        return -1;
    }
    Py_DECREF(added);
    return cpy_find_hook(cpy_audit_hooks(), hook) >= 0;
}

/* Afterwards the interpreter has the other hooks alone, if any. Only after a call of the above that
   returned 1. */
static inline int
cpy_drop_audit_hook(PyObject *hook)
{
    PyObject *hooks = cpy_audit_hooks();
    Py_ssize_t at = cpy_find_hook(hooks, hook);
    if (at < 0) {
        return 0;
    }
    if (PyList_SetSlice(hooks, at, at + 1, NULL) < 0) {
        return -1;
    }
    if (PyList_GET_SIZE(hooks) == 0) {
        PyInterpreterState_Get()->audit_hooks = NULL;
        Py_DECREF(hooks);
    }
    return 0;
}

#endif
