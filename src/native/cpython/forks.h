/* Functions that os.register_at_fork(before=...) has been given, which CPython has no function for.
 *
 * Source: CPython 3.14 Modules/posixmodule.c, register_at_forker, run_at_forkers.
 */
#ifndef PASTURE_CPYTHON_FORKS_H
#define PASTURE_CPYTHON_FORKS_H

#include "hooks.h"

/* All of them, if one of them is `known`; else NULL: their place may differ from what the headers
   say. */
static inline PyObject *
cpy_before_forks(PyObject *known)
{
    PyObject *calls = cpy_hooks(PyInterpreterState_Get()->before_forkers);
    return cpy_find_hook(calls, known) >= 0 ? calls : NULL;
}

/* Call these, the last one first, as a fork does. */
static inline void
cpy_run_before_fork(PyObject *calls)
{
    for (Py_ssize_t i = PyList_GET_SIZE(calls) - 1; i >= 0; i--) {
        PyObject *call = PyList_GET_ITEM(calls, i), *result = PyObject_CallNoArgs(call);
        if (result == NULL) {
#if PY_VERSION_HEX >= 0x030E0000
            PyErr_FormatUnraisable("Exception ignored in atfork callback %R", call);
#else
            PyErr_WriteUnraisable(call);
#endif
        }
        Py_XDECREF(result);
    }
}

#endif
