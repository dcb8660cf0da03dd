/* CPython's own headers, and which versions of CPython are supported.
 *
 * Headers of this folder include this one first. On an interpreter that is not supported it
 * defines CPY_UNSUPPORTED, a sentence that says why, and includes nothing internal.
 */
#ifndef PASTURE_CPYTHON_PYCORE_H
#define PASTURE_CPYTHON_PYCORE_H

#ifndef Py_BUILD_CORE_MODULE
#  define Py_BUILD_CORE_MODULE 1
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Releases whose collector was withdrawn: its lists have other heads. */
#define CPY_IS_INCREMENTAL(hex) ((hex) >= 0x030E0000 && (hex) < 0x030E0500)
#define CPY_INCREMENTAL \
    "CPython 3.14.0 to 3.14.4 has an incremental collector: install pasture on 3.14.5 or later"

/* Which interpreters are supported. An unsupported one still compiles, to a module
   that says why it does nothing. */
#if defined(PYPY_VERSION)
#  define CPY_UNSUPPORTED "PyPy has no reference counts and a collector of its own"
#elif defined(Py_GIL_DISABLED)
#  define CPY_UNSUPPORTED \
    "this is a free-threaded build: its objects and its collector are laid out differently"
#elif PY_VERSION_HEX < 0x030B0000
#  define CPY_UNSUPPORTED "CPython before 3.11 is not supported"
#elif PY_VERSION_HEX >= 0x03100000
#  define CPY_UNSUPPORTED "this version of CPython is newer than pasture knows"
#elif CPY_IS_INCREMENTAL(PY_VERSION_HEX)
#  define CPY_UNSUPPORTED CPY_INCREMENTAL
#elif SIZEOF_VOID_P != 8 || PY_BIG_ENDIAN
#  define CPY_UNSUPPORTED "only 64-bit little-endian machines are supported"
#endif

/* The version whose headers the extension was built with. */
#define CPY_BUILT_FOR PY_VERSION_HEX

/* Patch releases that share their layouts form one family: an extension built in one
   family must not run in another. 3.14 changed its collector in 3.14.5. */
#define CPY_LAYOUT_FAMILY(hex) \
    (((hex) >> 16) * 2u + (((hex) >> 16) == 0x030Eu && (hex) >= 0x030E0500u))

#ifndef CPY_UNSUPPORTED

#include <frameobject.h>
#include <opcode.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal/pycore_code.h" /* _Py_CODEUNIT, _PyCoCached */
#include "internal/pycore_dict.h" /* struct _dictkeysobject */
#include "internal/pycore_gc.h"   /* PyGC_Head, struct _gc_runtime_state */
#if PY_VERSION_HEX >= 0x030E0000
#  include "internal/pycore_interpframe_structs.h" /* struct _PyInterpreterFrame */
#else
#  include "internal/pycore_frame.h" /* struct _PyInterpreterFrame */
#endif
#include "internal/pycore_interp.h" /* struct _is */
#if PY_VERSION_HEX >= 0x030D0000
#  include "internal/pycore_runtime.h" /* _Py_DebugOffsets, _PyRuntime */
#endif
#if PY_VERSION_HEX >= 0x030C0000
#  include "internal/pycore_obmalloc.h" /* struct pool_header */
#endif
#if PY_VERSION_HEX >= 0x030D0000
#  include "internal/pycore_opcode_metadata.h" /* _PyOpcode_Caches, _PyOpcode_Deopt */
#elif PY_VERSION_HEX >= 0x030C0000
#  include "internal/pycore_opcode.h" /* the same */
#endif
#pragma GCC diagnostic pop

#endif /* CPY_UNSUPPORTED */
#endif
