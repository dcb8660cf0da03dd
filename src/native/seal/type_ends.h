/* The end of a type's objects, by its slots, its methods, or its name. ends.h has the
 * whole rule.
 *
 * Names are looked up in dictionaries of others in the midst of a walk: no code of their keys is run.
 * Where a key is not an exact string, the answer is the one that leaves objects mortal.
 */
#ifndef PASTURE_TYPE_ENDS_H
#define PASTURE_TYPE_ENDS_H

#include "../cpython/cpython.h"

typedef struct {
    PyTypeObject *type;
    bool finalizes; /* and not only to let go of what the object refers to */
    bool clears;    /* its `__del__` only lets go, and calls `clear` of what the object refers to */
    bool in_c;   /* a base that is written in C frees its objects, and is not a plain container */
    bool closes; /* and that base has a method for it, or is known to */
    PyTypeObject
        *foreign; /* the base whose objects a library from outside frees, which may give back
                              something; or NULL */
} type_end;

/* Get ready for the first look: allocates. Returns 0, or -1 with an exception set. */
int type_ends_prepare(void);

/* Forget the names of an interpreter that has ended. */
void type_ends_forget(void);

/* After type_ends_prepare(). Allocates nothing. */
type_end type_ends_look_up(PyTypeObject *type);

/* Whether the method `clear` of an object, if there is one, runs no Python code itself. */
bool type_ends_clears_in_c(PyObject *op);

/* Whether objects of the type end with what they refer to, and have no end of their own. */
static inline bool
type_ends_is_plain_container(PyTypeObject *type)
{
    return type == &PyDict_Type || type == &PyTuple_Type || type == &PyList_Type
           || type == &PySet_Type || type == &PyFrozenSet_Type || type == &PyFunction_Type
           || type == &PyCell_Type || type == &PyMethod_Type || type == &PyCode_Type;
}

#endif
