/* What the end of the interpreter goes through: the exception that ends it, and atexit. */
#ifndef PASTURE_CPYTHON_SHUTDOWN_H
#define PASTURE_CPYTHON_SHUTDOWN_H

#include "pycore.h"

/* Before 3.12 an exception that meets no handler on its way out never becomes an instance. */
#define CPY_HAS_BARE_EXCEPTIONS (PY_VERSION_HEX < 0x030C0000)

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

/* Whether `func` is the callback that was registered last, as far as can be seen. */
static inline bool
cpy_atexit_is_last(PyObject *func)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *entry =
        PyList_GET_SIZE(state->callbacks) > 0 ? PyList_GET_ITEM(state->callbacks, 0) : NULL;
    return entry != NULL && PyTuple_CheckExact(entry) && PyTuple_GET_SIZE(entry) > 0
           && PyTuple_GET_ITEM(entry, 0) == func;
#else
    return state->ncallbacks > 0 && state->callbacks[state->ncallbacks - 1] != NULL
           && state->callbacks[state->ncallbacks - 1]->func == func;
#endif
}

/* Make the callback that was registered last the one that runs last of all.
   Returns 0, or -1 with an exception set and the order unchanged. */
static inline int
cpy_atexit_last_to_bottom(void)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    /* A list in the order of execution: the newest entry stands first. */
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
