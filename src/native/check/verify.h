/* The verifier of the check build (PASTURE_CHECK): runs after every change of the heap
 * and aborts the process at the first broken invariant. Elsewhere it compiles to nothing.
 */
#ifndef PASTURE_VERIFY_H
#define PASTURE_VERIFY_H

#include "../cpython/cpython.h"
#include "../gc/mark_bits.h"

#ifndef CPY_UNSUPPORTED

#ifdef PASTURE_CHECK
/* `list` is circular with matching links, and its objects have a type. */
void verify_list(PyGC_Head *list);
/* Every list of the collector is. */
void verify_lists(void);
/* After immortalizing: every listed object is immortal but those of which `may_be_mortal`
   is true. */
void verify_heap_is_immortal(bool (*may_be_mortal)(PyObject *));
/* The same objects are found dead by plain reachability, computed without any of the
   collector's means, in verify_garbage.c. */
void verify_garbage(const mark_bits *bits, bool include_frozen);
/* What a container is said to refer to without asking it is what its tp_traverse visits, in any
   order: `references` and, of an instance, its dictionary if it has one and its type. */
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
