/* Asks the interpreter that runs: how it was built says nothing about the one that the extension
 * was built with. So its functions are looked up by name, and there may be none.
 */
#define _GNU_SOURCE
#include "jit.h"

#include "pycore.h"

#ifndef CPY_UNSUPPORTED

#include <dlfcn.h>

#if PY_VERSION_HEX >= 0x030E0000

/* sys._jit.is_enabled(), which does not change after the start. */
static bool
ask_sys(void)
{
    PyObject *module = PySys_GetObject("_jit"); /* borrowed */
    PyObject *answer = module ? PyObject_CallMethod(module, "is_enabled", NULL) : NULL;
    bool is_off = answer == Py_False;
    Py_XDECREF(answer);
    PyErr_Clear();
    return !is_off;
}

bool
jit_makes_traces(void)
{
    static enum { UNKNOWN, OFF, ON } state;
    if (state == UNKNOWN) {
        state = ask_sys() ? ON : OFF;
    }
    return state == ON;
}

typedef void (*invalidate_all)(PyInterpreterState *, int);

static invalidate_all
find_invalidate_all(void)
{
    return (invalidate_all)dlsym(RTLD_DEFAULT, "_Py_Executors_InvalidateAll");
}

bool
jit_can_forget_traces(void)
{
    return !jit_makes_traces() || find_invalidate_all() != NULL;
}

void
jit_forget_traces(void)
{
    if (jit_makes_traces() && find_invalidate_all() != NULL) {
        find_invalidate_all()(PyInterpreterState_Get(), 1);
    }
}

#else

/* On 3.13 an optimizer makes them, which can be set at any time. An interpreter that was built
   without the second tier has no such function; with it, it says NULL where there is none. */
bool
jit_makes_traces(void)
{
#  if PY_VERSION_HEX >= 0x030D0000
    PyObject *(*get_optimizer)(void) =
        (PyObject * (*)(void)) dlsym(RTLD_DEFAULT, "_Py_GetOptimizer");
    PyObject *optimizer = get_optimizer ? get_optimizer() : NULL;
    bool makes = optimizer != NULL;
    Py_XDECREF(optimizer);
    return makes;
#  else
    return false;
#  endif
}

bool
jit_can_forget_traces(void)
{
    return true; /* they look whether a constant is immortal */
}

void
jit_forget_traces(void)
{
}

#endif
#endif

/* not reached in this file: a build that makes traces */
