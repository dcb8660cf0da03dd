/* Code objects and their instructions: what they refer to, and what they write to themselves
 * when they run.
 */
#ifndef PASTURE_CPYTHON_CODE_H
#define PASTURE_CPYTHON_CODE_H

#include "immortality.h"
#include "jit.h"
#include "pycore.h"

/* Call `visit` with everything a code object refers to. It has no tp_traverse. */
static inline int
cpy_code_visit(PyCodeObject *code, visitproc visit, void *arg)
{
    Py_VISIT(code->co_consts);
    Py_VISIT(code->co_names);
    Py_VISIT(code->co_exceptiontable);
    Py_VISIT(code->co_localsplusnames);
    Py_VISIT(code->co_localspluskinds);
    Py_VISIT(code->co_filename);
    Py_VISIT(code->co_name);
    Py_VISIT(code->co_qualname);
    Py_VISIT(code->co_linetable);
#if PY_VERSION_HEX >= 0x030C0000
    if (code->_co_cached != NULL) {
        Py_VISIT(code->_co_cached->_co_code);
        Py_VISIT(code->_co_cached->_co_varnames);
        Py_VISIT(code->_co_cached->_co_cellvars);
        Py_VISIT(code->_co_cached->_co_freevars);
    }
#else
    Py_VISIT(code->_co_code);
#endif
    return 0;
}

#if PY_VERSION_HEX >= 0x030C0000
/* An instruction and its cache entries, in code units. Only for code that
   cpy_code_is_plain() accepts. */
static inline Py_ssize_t
cpy_instruction_units(_Py_CODEUNIT unit)
{
    return 1 + _PyOpcode_Caches[_PyOpcode_Deopt[unit.op.code]];
}
#endif

/* Code without monitoring events or compiled traces: every unit is a known instruction. */
static inline bool
cpy_code_is_plain(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030D0000
    return code->_co_monitoring == NULL
           && code->co_executors == NULL; /* not reached: a build that makes traces */
#elif PY_VERSION_HEX >= 0x030C0000
    return code->_co_monitoring == NULL;
#else
    (void)code;
    return true;
#endif
}

/* Code that no holder is known to keep by address: plain, without weak references and
   without data that a tool attached to it. */
static inline bool
cpy_code_is_movable(PyCodeObject *code)
{
    return cpy_code_is_plain(code) && code->co_weakreflist == NULL && code->co_extra == NULL;
}

static inline size_t
cpy_code_bytes(PyCodeObject *code)
{
    return (size_t)(PyCode_Type.tp_basicsize + Py_SIZE(code) * PyCode_Type.tp_itemsize);
}

/* A place in a code object for a pointer of ours, while no other code runs: empty in
   movable code, and to be emptied again. */
static inline void **
cpy_code_note(PyCodeObject *code)
{
    return &code->co_extra;
}

/* Let go of what a copy made byte by byte must not share with its original: it is computed again
   when asked for. */
static inline void
cpy_code_detach_copy(PyCodeObject *copy)
{
    copy->co_extra = NULL;
#if PY_VERSION_HEX >= 0x030C0000
    copy->_co_cached = NULL;
#else
    copy->_co_code = NULL;
    copy->_co_linearray = NULL;
    copy->_co_linearray_entry_size = 0;
#endif
}

/* Instructions that replace themselves at their first run. From 3.13 on. */
#if PY_VERSION_HEX >= 0x030D0000
#  define CPY_HAS_FIRST_RUN_REWRITES 1

/* The opcode that `unit` takes at its first run once its constant is immortal,
   or its own where it stays as it is. */
static inline uint8_t
cpy_first_run_opcode(_Py_CODEUNIT unit, PyObject *constant)
{
    switch (unit.op.code) {
#  if PY_VERSION_HEX >= 0x030E0000
    case RESUME: /* with the JIT both have other successors, which count */
        /* not reached: a build that makes traces */
        return jit_makes_traces() ? RESUME : RESUME_CHECK;
    case JUMP_BACKWARD:
        /* not reached: a build that makes traces */
        return jit_makes_traces() ? JUMP_BACKWARD : JUMP_BACKWARD_NO_JIT;
#  else
    case RESUME:
        return RESUME_CHECK;
#  endif
#  ifdef LOAD_CONST_IMMORTAL
    case LOAD_CONST:
    case LOAD_CONST_MORTAL:
        return constant != NULL && cpy_is_immortal(constant) ? LOAD_CONST_IMMORTAL : unit.op.code;
#  endif
    default:
        (void)constant;
        return unit.op.code;
    }
}

/* An instruction that takes its constant for mortal and adds a reference without a look (3.14). */
#  ifdef LOAD_CONST_MORTAL
#    define CPY_HAS_MORTAL_LOADS 1

static inline bool
cpy_is_mortal_load(_Py_CODEUNIT unit)
{
    return unit.op.code == LOAD_CONST_MORTAL;
}

/* New reference to the instructions of `code` as bytes, as they were compiled: no events, no
   traces, caches empty. NULL with an exception set where there is no memory. */
static inline PyObject *
cpy_code_plain(PyCodeObject *code)
{
    bool was_cached = code->_co_cached != NULL && code->_co_cached->_co_code != NULL;
    PyObject *plain = PyCode_GetCode(code);
    if (!was_cached && code->_co_cached != NULL) {
        Py_CLEAR(code->_co_cached->_co_code);
    }
    return plain;
}
#  else
#    define CPY_HAS_MORTAL_LOADS 0
#  endif

static inline bool
cpy_loads_constant(_Py_CODEUNIT unit)
{
    return _PyOpcode_Deopt[unit.op.code] == LOAD_CONST;
}

#else
#  define CPY_HAS_FIRST_RUN_REWRITES 0
#endif

#endif
