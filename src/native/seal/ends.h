/* Which objects stay mortal, because their end gives something back.
 *
 * An immortal object never ends: its file stays open, its lock held, its buffer pinned, its
 * finalizer is never called. So these stay as they are:
 *
 *   finalized   the type has tp_finalize or tp_del: a class with `__del__`, files, sockets, generators
 *   foreign     a library that is neither the interpreter's nor the standard library's frees it, and its
 *               type is not known to hold memory alone (memory_types.h)
 *   closed      a type written in C has a method `close` or `release`, but no `acquire`: mmap,
 *               memoryview, epoll, connections and cursors of databases
 *   a buffer    an object of a type written in C, large enough for a Py_buffer, refers to one that
 *               counts its exports
 *   a capsule   with a destructor
 *   watched     a weak reference to it has a callback: weakref.finalize, temporary folders. Callbacks
 *               of weakref's own containers keep books and do not count
 *   clears      its `__del__` calls `clear` of something whose `clear` is written in Python
 *
 * and so do their owners, the objects that refer to them, and the owners of those: an owner that is
 * dropped must end, or it never lets go. An owner that many others refer to (ENDS_OWNER_MAX_REFERENCES)
 * is a part of the program that stays. So are modules, their dictionaries, and types. A function owns
 * what it closes over, not its module.
 *
 * In a graph whose parts refer to their parent, one file at its root makes owners of all of it, and each
 * collection in a child would write them. Where owners are too many, only those of the nearest levels
 * count, and ends_owners_are_left_out().
 *
 * Weak references with callbacks to what stays mortal stay mortal, too. A container that a running call holds stays mortal as well, for what it may hold by the time that
 * the call returns.
 *
 * Leaving an object mortal is always safe, and costs the page that its count is on.
 */
#ifndef PASTURE_ENDS_H
#define PASTURE_ENDS_H

#include "../cpython/cpython.h"
#include "../gc/mark_bits.h"

#define ENDS_OWNER_MAX_REFERENCES 16

/* Get ready for the first or another ends_find(): allocates. Returns 0, or -1 with an exception set. */
int ends_prepare(void);

/* Say that objects of a type without tp_traverse refer to another where `sample`, one of them, refers to
   `owned`. Returns whether a field with that reference was found in `sample`. For one type alone. */
bool ends_register_owner(PyTypeObject *type, PyObject *sample, PyObject *owned);

/* Take the order (order.h), meet what is in it and all that it leads to, and find them. `types`: all types,
   a list. `value` is called with each str, bytes and number that is mortal. Allocates no object, runs no
   Python code. Returns 0 or errno. What was found holds until ends_release(). */
int ends_find(PyObject *types, visitproc value, void *value_arg);
void ends_release(void);

/* Like ends_release(), but for the set of what was found (its marked bits), which the caller releases. An
   object that came since may have the bit of one that went. */
mark_bits ends_hand_over(void);

/* Forget the types of an interpreter that has ended. */
void ends_forget(void);

/* Whether the last ends_find() found too many owners, so that only the nearest count. */
bool ends_owners_are_left_out(void);

/* Whether `op` was found, listed or not: between ends_find() and ends_release(). */
bool ends_matters(PyObject *op);

/* The type for which `op` stays mortal, where that is all it shows: one of a library from outside that is
   not known to hold memory alone; else NULL. Like ends_matters(). */
PyTypeObject *ends_foreign_type(PyObject *op);

/* Whether `op` shows by itself that its end matters. At any time after ends_prepare(). */
bool ends_shows(PyObject *op);

/* Whether C code may still be filling `op`, a tuple, frozenset or frozendict with a count of 1: an item
   is missing, or neither an object nor a frame refers to it, so that nothing but C code has it. The
   functions that fill them refuse another count. After ends_release() only the first is known. */
bool ends_is_being_filled(PyObject *op);

/* Call `visit` with each mortal object, but for those plain values, that is in no list and that an object
   refers to. */
int ends_visit_unlisted(visitproc visit, void *arg);

#endif
