/* Hashes that strings and bytes keep from the first time they are asked for: -1 until then. */
#ifndef PASTURE_CPYTHON_HASHES_H
#define PASTURE_CPYTHON_HASHES_H

#include "pycore.h"

static inline Py_hash_t
cpy_str_hash(PyObject *op)
{
    return ((PyASCIIObject *)op)->hash;
}

static inline Py_hash_t
cpy_bytes_hash(PyObject *op)
{
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    return ((PyBytesObject *)op)->ob_shash;
    _Py_COMP_DIAG_POP
}

#endif
