/* The functions of atexit, which the end of the interpreter calls. */
#ifndef PASTURE_CPYTHON_SHUTDOWN_H
#define PASTURE_CPYTHON_SHUTDOWN_H

#include "pycore.h"

/* Whether the interpreter ends, and atexit functions have run. */
static inline bool
cpy_is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

/* Borrowed: a registered function, 0 being the one that runs first or last; NULL behind the end, and for one that
   was taken back (before 3.14). */
static inline PyObject *
cpy_atexit_function(Py_ssize_t at)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *entry =
        at < PyList_GET_SIZE(state->callbacks) ? PyList_GET_ITEM(state->callbacks, at) : NULL;
    bool is_known = entry != NULL && PyTuple_CheckExact(entry) && PyTuple_GET_SIZE(entry) > 0;
    return is_known ? PyTuple_GET_ITEM(entry, 0) : NULL;
#else
    bool is_known = at >= 0 && at < state->ncallbacks && state->callbacks[at] != NULL;
    return is_known ? state->callbacks[at]->func : NULL;
#endif
}

static inline Py_ssize_t
cpy_atexit_count(void)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    return PyList_GET_SIZE(state->callbacks);
#else
    return state->ncallbacks;
#endif
}

/* Whether `func` is the callback that was registered last, as far as can be seen. */
static inline bool
cpy_atexit_is_last(PyObject *func)
{
#if PY_VERSION_HEX >= 0x030E0000
    return cpy_atexit_function(0) == func;
#else
    return cpy_atexit_function(cpy_atexit_count() - 1) == func;
#endif
}

/* Whether a callback is a builtin function of this definition. */
static inline bool
cpy_atexit_has(PyMethodDef *method)
{
    for (Py_ssize_t i = 0; i < cpy_atexit_count(); i++) {
        PyObject *func = cpy_atexit_function(i);
        if (func != NULL && PyCFunction_CheckExact(func)
            && ((PyCFunctionObject *)func)->m_ml == method) {
            return true;
        }
    }
    return false;
}

/* Make the callback that was registered last the one that runs last of all.
   Returns 0, or -1 with an exception set and the order unchanged. */
static inline int
cpy_atexit_last_to_bottom(void)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    /* A list in the order of execution: the newest entry is first. */
    PyObject *entry = Py_NewRef(PyList_GET_ITEM(state->callbacks, 0));
    int err = PyList_Append(state->callbacks, entry);
    Py_DECREF(entry);
    return err < 0 ? -1 : PyList_SetSlice(state->callbacks, 0, 1, NULL);
#else
    /* An array run from its end to its start. */
    for (int i = state->ncallbacks - 1; i > 0; i--) {
        void *upper = state->callbacks[i];
        memcpy(&state->callbacks[i], &state->callbacks[i - 1], sizeof upper);
        memcpy(&state->callbacks[i - 1], &upper, sizeof upper);
    }
    return 0;
#endif
}

#endif
