/* The functions that finalize the interpreter, and those that call them.
 *
 * Source: CPython 3.14 Python/pylifecycle.c, Py_FinalizeEx, Py_Exit; Modules/main.c, Py_RunMain. Since 3.13
 * Py_FinalizeEx jumps to a static function, to which Py_Exit goes directly.
 */
#ifndef PASTURE_CPYTHON_FINALIZING_H
#define PASTURE_CPYTHON_FINALIZING_H

#include "pycore.h"

#include "internal/pycore_runtime.h" /* _PyRuntime */

/* Since 3.15 threads are joined and functions of atexit run again until there is no new one. */
#define CPY_FINALIZING_GOES_ROUND (PY_VERSION_HEX >= 0x030F0000)

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
    return function == (const void *)Py_Exit || function == (const void *)Py_RunMain;
}

/* Have C code that runs from now on (functions of C's atexit, destructors) find what it finds after the end
   of the interpreter: it is not initialized. So nothing of it calls the interpreter or finalizes it. Where
   the field is not the one that Py_IsInitialized() reads, nothing is done. */
static inline void
cpy_seem_finalized(void)
{
    int *field = (int *)&_PyRuntime.initialized;
    if (*field == 1 && Py_IsInitialized()) {
        *field = 0;
        if (Py_IsInitialized()) {
            *field = 1;
        }
    }
}

#endif
