/* Whether a code object ran since that was last forgotten.
 *
 * The interpreter keeps no note of it. What a run changes in the code shows it.
 */
#ifndef PASTURE_CPYTHON_CODE_RUNS_H
#define PASTURE_CPYTHON_CODE_RUNS_H

#include "code.h"

#if CPY_HAS_FIRST_RUN_REWRITES

/* The instruction every execution passes first; it changes its opcode when it does.
   Code that is not compiled from source may lack it: NULL. */
static inline _Py_CODEUNIT *
cpy_code_entry(PyCodeObject *code)
{
    return code->_co_firsttraceable < Py_SIZE(code) ? &_PyCode_CODE(code)[code->_co_firsttraceable]
                                                    : NULL;
}

static inline bool
cpy_code_ran(PyCodeObject *code)
{
    _Py_CODEUNIT *entry = cpy_code_entry(code);
    return entry != NULL && entry->op.code == RESUME_CHECK;
}

/* Undo the trace of the first run; the next run leaves it again. */
static inline void
cpy_code_forget_run(PyCodeObject *code)
{
    if (cpy_code_is_plain(code) && cpy_code_ran(code)) {
        cpy_code_entry(code)->op.code = RESUME;
    }
}

#elif PY_VERSION_HEX >= 0x030C0000

/* In 3.12 a run shows in the counters alone: the first entry of each cache. A generic
   instruction counts at each run, a specialized one when its guard fails. Code none of whose
   counters moves looks as if it had not run. It writes nothing to itself either. */

/* What the counter of an instruction holds while it did not run since that was forgotten. That of
   a generic instruction is then as in new code. A specialized one's is one less than it is set to
   when it becomes specialized, so that this shows, too. */
static inline uint16_t
cpy_counter_at_rest(_Py_CODEUNIT unit)
{
    bool is_generic = _PyOpcode_Deopt[unit.op.code] == unit.op.code;
    return is_generic ? adaptive_counter_warmup()
                      : (uint16_t)(adaptive_counter_cooldown() - (1 << ADAPTIVE_BACKOFF_BITS));
}

/* Only for plain code. */
static inline bool
cpy_code_ran(PyCodeObject *code)
{
    const _Py_CODEUNIT *units = _PyCode_CODE(code);
    Py_ssize_t length;
    for (Py_ssize_t i = 0; i < Py_SIZE(code); i += length) {
        length = cpy_instruction_units(units[i]);
        if (length > 1 && units[i + 1].cache != cpy_counter_at_rest(units[i])) {
            return true;
        }
    }
    return false;
}

static inline void
cpy_code_forget_run(PyCodeObject *code)
{
    _Py_CODEUNIT *units = _PyCode_CODE(code);
    Py_ssize_t count = cpy_code_is_plain(code) ? Py_SIZE(code) : 0;
    Py_ssize_t length;
    for (Py_ssize_t i = 0; i < count; i += length) {
        length = cpy_instruction_units(units[i]);
        if (length > 1) {
            units[i + 1].cache = cpy_counter_at_rest(units[i]);
        }
    }
}

#else

/* In 3.11 code counts its first few runs, and is then quickened. Quickened code shows nothing more:
   it ran often and counts as code that did. */

static inline bool
cpy_code_ran(PyCodeObject *code)
{
    return code->co_warmup != QUICKENING_INITIAL_WARMUP_VALUE;
}

static inline void
cpy_code_forget_run(PyCodeObject *code)
{
    if (code->co_warmup != 0) {
        code->co_warmup = QUICKENING_INITIAL_WARMUP_VALUE;
    }
}

#endif

#endif
