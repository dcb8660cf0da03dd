/* Running a program as the interpreter's own command line does, in an interpreter that runs
 * already: what Py_RunMain reads is put into the configuration first.
 *
 * Source: CPython 3.14 Modules/main.c, pymain_run_python; Python/initconfig.c,
 * config_update_argv.
 */
#ifndef PASTURE_CPYTHON_MAIN_H
#define PASTURE_CPYTHON_MAIN_H

#include "pycore.h"

#include "internal/pycore_initconfig.h" /* PyConfig of an interpreter */
#include "internal/pycore_pystate.h"    /* _PyInterpreterState_SetNotRunningMain */
#include "internal/pycore_runtime.h"    /* _PyRuntime */

#if PY_VERSION_HEX >= 0x030C0100
#  pragma weak _PyInterpreterState_SetNotRunningMain /* 3.12.0 has neither it nor what it undoes */
#endif

/* Replace a string of the configuration; NULL for none. -1 without memory. */
static inline int
cpy_config_set(wchar_t **member, const wchar_t *value)
{
    wchar_t *copy = NULL;
    if (value != NULL) {
        size_t bytes = (wcslen(value) + 1) * sizeof *value;
        copy = PyMem_RawMalloc(bytes);
        if (copy == NULL) {
            return -1;
        }
        memcpy(copy, value, bytes);
    }
    PyMem_RawFree(*member);
    *member = copy;
    return 0;
}

static inline PyConfig *
cpy_config(void)
{
    return (PyConfig *)&PyInterpreterState_Get()->config;
}

/* Start over with the arguments of the program. */
static inline void
cpy_config_clear_argv(void)
{
    cpy_config()->argv = (PyWideStringList){0, NULL}; /* the old one may be sealed: it is left */
}

/* Frames that run now are no callers of what is run next: it finds itself the outermost. */
static inline void
cpy_become_outermost(void)
{
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030F0000
    thread->current_frame = thread->base_frame;
#elif PY_VERSION_HEX >= 0x030D0000
    thread->current_frame = NULL;
#else
    thread->cframe->current_frame = NULL;
#endif
#if PY_VERSION_HEX >= 0x030C0000
    thread->py_recursion_remaining = thread->py_recursion_limit;
#else
    thread->recursion_remaining = thread->recursion_limit;
#endif
#if PY_VERSION_HEX >= 0x030C0100
    if (_PyInterpreterState_SetNotRunningMain != NULL) {
        _PyInterpreterState_SetNotRunningMain(PyInterpreterState_Get());
    }
#endif
}

#endif
