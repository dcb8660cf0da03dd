/* Objects that hold others out of sight of tp_traverse, as a numpy array of objects does.
 *
 * A program that knows such a type registers a function that yields what one of its objects holds.
 * A walk remembers the containers that it meets, and asks for their items when nothing is half done:
 * the function is Python code, and allocates.
 */
#ifndef PASTURE_CONTAINERS_H
#define PASTURE_CONTAINERS_H

#include "../cpython/cpython.h"

#include "../process/scratch.h"

/* Have `iterate(op)` yield what objects of this type and its subtypes hold. A later call for the
   same type replaces the function. Returns 0, or -1 with an exception set. */
int containers_register(PyTypeObject *type, PyObject *iterate);

/* Forget the types of an interpreter that has ended. */
void containers_forget(void);

/* The last type that a walk looked up: objects of one type come in a row. All zero, it is empty.
   No longer true once Python code has run: a type that died may leave its address to another. */
typedef struct {
    PyTypeObject *type;
    bool known;
} containers_lookup;

/* Whether it was registered what objects of this type hold. Allocates nothing. */
bool containers_is_known(containers_lookup *last, PyTypeObject *type);

/* Call `visit` with each item of `op` while the item is held. Runs Python code. An Exception that it
   raises is reported as unraisable, and sets `*failed`: the other items are then not visited. Returns
   what `visit` returned first that is not 0, or 0; or -1 with an exception set that is no Exception: a
   signal's handler ends what runs. */
int containers_visit(PyObject *op, visitproc visit, void *arg, bool *failed);

#endif
