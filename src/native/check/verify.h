/* The verifier of the check build (PASTURE_CHECK).
 *
 * It runs after every change of the heap and aborts the process at the first broken invariant.
 * In other builds its functions are empty. None of them runs Python code.
 */
#ifndef PASTURE_VERIFY_H
#define PASTURE_VERIFY_H

#include "../cpython/cpython.h"
#include "../gc/mark_bits.h"

#ifndef CPY_UNSUPPORTED

#ifdef PASTURE_CHECK
/* Requires that `list` is circular with matching links, and that its objects have a type. */
void verify_list(PyGC_Head *list);
/* Verify every list of the collector. */
void verify_lists(void);
/* After the heap was made immortal: every listed object is, unless `may_be_mortal` says that it
   need not be. */
void verify_heap_is_immortal(bool (*may_be_mortal)(PyObject *));
/* The objects that the search took for garbage are those that plain reachability finds dead.
   Computed without any of the collector's means, in verify_garbage.c. Larger heaps than
   300,000 objects are not compared. */
void verify_garbage(const mark_bits *bits, bool include_frozen);
/* What was read from the layout of a container is what its tp_traverse visits, in any order:
   `references` and, for an instance, its dictionary (or NULL) and its type. */
void verify_references(PyObject *op, cpy_references references, PyObject *dict, PyObject *type);
/* No instruction of a function's code counts references to an immortal constant. */
void verify_code_counts_no_constants(void);
#else
static inline void
verify_references(PyObject *Py_UNUSED(op), cpy_references Py_UNUSED(references),
                  PyObject *Py_UNUSED(dict), PyObject *Py_UNUSED(type))
{
}
static inline void
verify_code_counts_no_constants(void)
{
}
static inline void
verify_list(PyGC_Head *Py_UNUSED(list))
{
}
static inline void
verify_garbage(const mark_bits *Py_UNUSED(bits), bool Py_UNUSED(include_frozen))
{
}
static inline void
verify_lists(void)
{
}
static inline void
verify_heap_is_immortal(bool (*may_be_mortal)(PyObject *))
{
    (void)may_be_mortal;
}
#endif

#endif
#endif
