/* Offsets that the interpreter publishes of itself, for debuggers (CPython 3.13). */
#ifndef PASTURE_CPYTHON_DEBUG_OFFSETS_H
#define PASTURE_CPYTHON_DEBUG_OFFSETS_H

#include "pycore.h"

#ifndef CPY_UNSUPPORTED
#if PY_VERSION_HEX >= 0x030D0000

#include <string.h>

/* Whether one of them says the same as we assume. They begin `_PyRuntime`, and are of the version
   whose number they carry: those of another minor version would have other members. */
#  define CPY_PUBLISHED(member, at) \
    (cpy_debug_offsets() != NULL && cpy_debug_offsets()->member == (uint64_t)(at))

static inline const struct _Py_DebugOffsets *
cpy_debug_offsets(void)
{
    const struct _Py_DebugOffsets *offsets = (const struct _Py_DebugOffsets *)&_PyRuntime;
    bool known = memcmp(offsets->cookie, "xdebugpy", sizeof offsets->cookie) == 0
                 && offsets->version >> 16 == (uint64_t)PY_VERSION_HEX >> 16;
    return known ? offsets : NULL;
}

#else
#  define CPY_PUBLISHED(member, at) true
#endif
#endif /* CPY_UNSUPPORTED */

#endif

/* not reached in this file: each condition is an assertion about the interpreter, and holds in every build of it */
