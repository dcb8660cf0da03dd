/* Which types of extensions hold memory alone.
 *
 * A library from outside, neither the interpreter's nor the standard library's, frees its objects in a
 * way that nothing shows: it may close a file, unlock, unmap or release a buffer. So they stay mortal,
 * unless the type is known: listed here, or registered by the program.
 *
 * A known type vouches for the types written in C that it is derived from.
 */
#ifndef PASTURE_MEMORY_TYPES_H
#define PASTURE_MEMORY_TYPES_H

#include "../cpython/cpython.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

/* Find where the libraries of the interpreter and of the standard library lie. What is loaded later
   counts as one from outside. */
void memory_types_prepare(void);

/* Whether a library from outside frees objects of the type, by a function that its base does not have.
   After memory_types_prepare(). */
bool memory_types_is_foreign(PyTypeObject *type);

/* Whether the list, or the program, says that objects of the type hold memory alone. Names are those of
   types written in C. Allocate nothing. */
bool memory_types_is_listed(PyTypeObject *type);
bool memory_types_is_registered(PyTypeObject *type);

/* The list: (name, library or None, reason) of each row, a new reference; NULL with an exception set.
   A star at the end of a name stands for anything. */
PyObject *memory_types_list(void);

/* Know this type, too. Returns 0, or -1 with an exception set. */
int memory_types_register(PyTypeObject *type);

#endif

/* Forget the types of an interpreter that has ended. */
void memory_types_forget(void);

#endif
