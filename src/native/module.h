/* The methods of pasture._native, a table a topic. module.c joins them.
 *
 * No step is implemented in these files: a function parses its arguments, calls its mechanism and
 * turns counts into a dictionary. _native.pyi has the contract of each. A table ends with an entry
 * of NULLs. On an interpreter that is not supported there are none.
 */
#ifndef PASTURE_MODULE_H
#define PASTURE_MODULE_H

#include "cpython/cpython.h"

extern PyMethodDef module_seal_methods[];
extern PyMethodDef module_gc_methods[];
extern PyMethodDef module_process_methods[];
extern PyMethodDef module_image_methods[];

#endif
