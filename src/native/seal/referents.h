/* The referents of an object, including those that tp_traverse leaves out.
 *
 * tp_traverse serves the collector and may skip whatever cannot be part of a cycle: string keys of
 * dictionaries, names of functions and types, everything in a code object. Reading those writes
 * their reference counts all the same, so the seal must find them. Types without any tp_traverse are
 * read by the members that they declare: the bounds of a range, the path of an os.DirEntry.
 */
#ifndef PASTURE_REFERENTS_H
#define PASTURE_REFERENTS_H

#include "../cpython/cpython.h"

/* Call `visit` with every object that `op` refers to, possibly more than once.
   Allocates nothing. Returns what `visit` returned first that is not 0, or 0. */
int referents_visit(PyObject *op, visitproc visit, void *arg);

/* Whether a type, or one of its bases, declares members: fields that Python code can read. */
static inline bool
referents_has_members(PyTypeObject *type)
{
    while (type != NULL && type->tp_members == NULL) {
        type = type->tp_base;
    }
    return type != NULL;
}

/* Whether referents_visit() can yield anything for objects of this type. */
static inline bool
referents_may_exist(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return type->tp_traverse != NULL || referents_has_members(type);
}

#endif
