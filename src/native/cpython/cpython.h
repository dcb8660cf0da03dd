/* All that pasture knows about CPython's internals, behind one header.
 *
 * Files outside of this folder include this header alone and are written in terms of the cpy_*
 * names. PY_VERSION_HEX and pycore_* appear in this folder and nowhere else. What is assumed
 * about layouts is asserted here at compile time, and layout.c compares it once with the running
 * interpreter.
 *
 * Words used throughout:
 *   listed      an object that is in one of the collector's lists ("tracked")
 *   immortal    reference counting leaves the object alone (PEP 683, CPython 3.12)
 *   pool        pymalloc's unit of one size class, 16 KiB; not an OS page
 */
#ifndef PASTURE_CPYTHON_H
#define PASTURE_CPYTHON_H

#include "pycore.h"

#ifndef CPY_UNSUPPORTED
#  include "code.h"
#  include "code_runs.h"
#  include "containers.h"
#  include "dict.h"
#  include "ends.h"
#  include "fields.h"
#  include "filling.h"
#  include "finalizing.h"
#  include "gc.h"
#  include "hashes.h"
#  include "immortality.h"
#  include "jit.h"
#  include "layout.h"
#  include "pymalloc.h"
#  include "roots.h"
#  include "shutdown.h"
#  include "storage.h"
#  include "type.h"
#endif

#endif
