/* Immortal objects (PEP 683, CPython 3.12): what makes one, and how far its count has drifted.
 *
 * From 3.12 on a certain range of counts means "never freed", and the interpreter leaves such a
 * count alone. 3.14 adds a flag next to the count. On 3.11 no object is immortal.
 */
#ifndef PASTURE_CPYTHON_IMMORTALITY_H
#define PASTURE_CPYTHON_IMMORTALITY_H

#include "pycore.h"

#if PY_VERSION_HEX >= 0x030C0000
#  define CPY_HAS_IMMORTALITY 1
#else
#  define CPY_HAS_IMMORTALITY 0
#endif

#if CPY_HAS_IMMORTALITY

static inline bool
cpy_is_immortal(PyObject *op)
{
    return _Py_IsImmortal(op);
}

/* A debug build asserts that a string which is neither interned nor static is mortal.
   Release builds handle the combination (CPython Objects/unicodeobject.c, intern_common).
   That of 3.15 asserts in its finalization that the names of builtins are tracked, and its
   collector untracks what is immortal (finalize_restore_builtins in Python/pylifecycle.c). */
static inline bool
cpy_must_stay_mortal(PyObject *op)
{
#  if defined(Py_DEBUG) && PY_VERSION_HEX >= 0x030F0000
    if (op == PyEval_GetBuiltins()) {
        return true;
    }
#  endif
#  if defined(Py_DEBUG) && PY_VERSION_HEX >= 0x030D0000
    return PyUnicode_Check(op) && ((PyASCIIObject *)op)->state.interned == SSTATE_NOT_INTERNED;
#  else
    (void)op;
    return false;
#  endif
}

/* An interned string carries its immortality a second time, for the shutdown. */
static inline void
cpy_settle_interned(PyObject *op)
{
    if (PyUnicode_Check(op) && ((PyASCIIObject *)op)->state.interned == SSTATE_INTERNED_MORTAL) {
#  ifdef SSTATE_INTERNED_IMMORTAL
        ((PyASCIIObject *)op)->state.interned = SSTATE_INTERNED_IMMORTAL;
#  endif
    }
}

/* 3.14 and later look at the flag before the evaluation stack takes a reference, and
   at the count everywhere else: both must be set, or every read flips the count. */
static inline void
cpy_make_immortal(PyObject *op)
{
#  if PY_VERSION_HEX >= 0x030E0000
    op->ob_flags |= _Py_IMMORTAL_FLAGS;
    op->ob_refcnt = (uint32_t)_Py_IMMORTAL_INITIAL_REFCNT;
#  else
    op->ob_refcnt = _Py_IMMORTAL_REFCNT;
#  endif
    cpy_settle_interned(op);
}

/* How far the count of an immortal object is from where it was set. */
typedef enum {
    CPY_COUNT_IN_PLACE,
    CPY_COUNT_DRIFTED, /* it can be set again */
    CPY_COUNT_FOREIGN, /* not a count that was set and has drifted: to be left alone */
} cpy_count_state;

/* Extensions built for the stable ABI of before 3.12 count references to immortal objects,
   which the interpreter does not; so a difference adds up. They count in 64 bits, of which the
   interpreter looks at the lower half: from 2^31 on it is immortal.
   3.12 and 3.13 set all bits of that half, and the first reference makes the object mortal,
   with a carry in the upper half, which nothing uses up. From 3.14 on the carry comes after
   2^30 references, and nothing but a flag is above it. */
static inline cpy_count_state
cpy_count_state_of(PyObject *op)
{
    uint64_t word;
    memcpy(&word, op, sizeof word);
#  if PY_VERSION_HEX >= 0x030E0000
    const uint64_t tolerated = (uint64_t)1 << 20;
    const uint64_t set = _Py_IMMORTAL_INITIAL_REFCNT;
    const uint64_t low = word & 0xFFFFFFFFFFFF; /* the count and its carry */
    if (!(word >> 48 & _Py_IMMORTAL_FLAGS)) {
        return CPY_COUNT_FOREIGN;
    }
#  else
    const uint64_t tolerated = 0;
    const uint64_t set = _Py_IMMORTAL_REFCNT;
    const uint64_t low = word;
#  endif
    if (low + tolerated >= set && low <= set + tolerated) {
        return CPY_COUNT_IN_PLACE;
    }
    const uint64_t most = (uint64_t)3 << 31;
    return low >= (uint64_t)1 << 31 && low < most ? CPY_COUNT_DRIFTED : CPY_COUNT_FOREIGN;
}

/* Set a count that has drifted again. */
static inline void
cpy_count_reset(PyObject *op)
{
#  if PY_VERSION_HEX >= 0x030E0000
    op->ob_overflow = 0;
#  endif
    op->ob_refcnt = 0; /* all of it on 3.12 and 3.13 */
    cpy_make_immortal(op);
}

#else /* no immortality */

static inline bool
cpy_is_immortal(PyObject *Py_UNUSED(op))
{
    return false;
}

static inline bool
cpy_must_stay_mortal(PyObject *Py_UNUSED(op))
{
    return true;
}

#endif

#endif
