/* The functions that finalize the interpreter, and those that call them.
 *
 * Source: CPython 3.14 Python/pylifecycle.c, Py_FinalizeEx, Py_Exit; Modules/main.c, Py_RunMain. Since 3.13
 * Py_FinalizeEx jumps to a static function, to which Py_Exit goes directly.
 */
#ifndef PASTURE_CPYTHON_FINALIZING_H
#define PASTURE_CPYTHON_FINALIZING_H

#include "pycore.h"

#include "internal/pycore_pystate.h" /* _PyInterpreterState_SetFinalizing */
#include "internal/pycore_runtime.h" /* _PyRuntime */

/* The one that is called, and where its code goes on: `jump` finds the first jump out of a function. */
typedef struct {
    const void *code[2];
} cpy_finalizing;

static inline cpy_finalizing
cpy_find_finalizing(const void *(*jump)(const void *function))
{
    const void *entry = (const void *)Py_FinalizeEx;
    return (cpy_finalizing){{entry, jump(entry)}};
}

static inline bool
cpy_is_finalizing_code(const cpy_finalizing *known, const void *code)
{
    return code != NULL && (code == known->code[0] || code == known->code[1]);
}

/* Whether a function that calls the finalizing one ends the process with a status of its own. */
static inline bool
cpy_ends_process(const void *function)
{
    return function == (const void *)Py_Exit;
}

/* Whether it returns a status, to a function of which cpy_is_program() says whether that ends the process. */
static inline bool
cpy_returns_status(const void *function)
{
    return function == (const void *)Py_RunMain;
}

/* The interpreter's own program. Others that call Py_RunMain may go on, and initialize again. */
static inline bool
cpy_is_program(const void *function)
{
    return function == (const void *)Py_BytesMain || function == (const void *)Py_Main;
}

/* From now on the interpreter is finalizing for all who ask. */
static inline void
cpy_begin_finalizing(void)
{
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    _PyInterpreterState_SetFinalizing(PyInterpreterState_Get(), thread);
#endif
    _PyRuntimeState_SetFinalizing(&_PyRuntime, thread);
}

/* Have threads and C code that run from now on (functions of C's atexit, destructors) find what they find
   at the end of the interpreter: it is finalizing, so threads that ask for the GIL end or hang, and it is not
   initialized. So nothing of it calls the interpreter or finalizes it. Where the second field is not the one
   that Py_IsInitialized() reads, it is left. */
static inline void
cpy_seem_finalized(void)
{
    cpy_begin_finalizing();
    int *field = (int *)&_PyRuntime.initialized;
    if (*field == 1 && Py_IsInitialized()) {
        *field = 0;
        if (Py_IsInitialized()) {
            *field = 1;
        }
    }
}

#endif
