/* A walk over the instructions of a code object, from one to the next.
 *
 * The cache behind an instruction is not an instruction, so the walk must know the length of
 * each. Plain code is walked by its own instructions. Where monitoring events or compiled traces
 * have taken the place of some, the interpreter is asked for the code without them.
 */
#define NEED_OPCODE_METADATA /* the tables of instruction lengths: defined once, here */
#define NEED_OPCODE_TABLES   /* their name in 3.12 */
#include "specialize.h"

#ifndef CPY_UNSUPPORTED

#if CPY_HAS_FIRST_RUN_REWRITES

static bool keeps_first_run, hides_runs;

void
specialize_keep_first_run(bool keep)
{
    keeps_first_run = keep;
}

bool
specialize_hides_runs(void)
{
    return hides_runs;
}

void
specialize_runs_are_forgotten(void)
{
    hides_runs = false;
}

static PyObject *
constant_of(PyCodeObject *code, _Py_CODEUNIT unit, unsigned int oparg)
{
    if (!cpy_loads_constant(unit) || oparg >= (size_t)PyTuple_GET_SIZE(code->co_consts)) {
        return NULL;
    }
    return PyTuple_GET_ITEM(code->co_consts, oparg);
}

static Py_ssize_t
settle_plain(PyCodeObject *code)
{
    Py_ssize_t rewritten = 0;
    unsigned int extended = 0;
    _Py_CODEUNIT *units = _PyCode_CODE(code);
    Py_ssize_t count = Py_SIZE(code);
    for (Py_ssize_t i = 0; i < count; i += cpy_instruction_units(units[i])) {
        unsigned int oparg = extended << 8 | units[i].op.arg;
        extended = units[i].op.code == EXTENDED_ARG ? oparg : 0;
        uint8_t settled = cpy_first_run_opcode(units[i], constant_of(code, units[i], oparg));
        if (settled != units[i].op.code && !(keeps_first_run && units[i].op.code == RESUME)) {
            hides_runs = hides_runs || units[i].op.code == RESUME;
            units[i].op.code = settled;
            rewritten++;
        }
    }
    return rewritten;
}

#if CPY_HAS_MORTAL_LOADS
/* The number of instructions that count references to a constant that is immortal by now, which
   are rewritten if so wanted; -1 with an exception set. */
static Py_ssize_t
each_mortal_load(PyCodeObject *code, bool rewrite)
{
    PyObject *plain = cpy_code_plain(code);
    if (plain == NULL) {
        return -1;
    }
    Py_ssize_t found = 0;
    unsigned int extended = 0;
    _Py_CODEUNIT *units = _PyCode_CODE(code);
    const _Py_CODEUNIT *plain_units = (const _Py_CODEUNIT *)PyBytes_AS_STRING(plain);
    Py_ssize_t count = Py_SIZE(code);
    for (Py_ssize_t i = 0; i < count; i += cpy_instruction_units(plain_units[i])) {
        unsigned int oparg = extended << 8 | plain_units[i].op.arg;
        extended = plain_units[i].op.code == EXTENDED_ARG ? oparg : 0;
        if (!cpy_is_mortal_load(units[i])) {
            continue;
        }
        uint8_t settled = cpy_first_run_opcode(units[i], constant_of(code, plain_units[i], oparg));
        found += settled != units[i].op.code;
        if (rewrite) {
            units[i].op.code = settled;
        }
    }
    Py_DECREF(plain);
    return found;
}
#else
static Py_ssize_t
each_mortal_load(PyCodeObject *Py_UNUSED(code), bool Py_UNUSED(rewrite))
{
    return 0;
}
#endif

Py_ssize_t
specialize_code(PyCodeObject *code)
{
    /* The instructions that an event hides are generic ones, which look at their constant. */
    return cpy_code_is_plain(code) ? settle_plain(code) : each_mortal_load(code, true);
}

Py_ssize_t
specialize_count_mortal_loads(PyCodeObject *code)
{
    return each_mortal_load(code, false);
}

#else

void
specialize_keep_first_run(bool Py_UNUSED(keep))
{
}

bool
specialize_hides_runs(void)
{
    return false;
}

void
specialize_runs_are_forgotten(void)
{
}

Py_ssize_t
specialize_code(PyCodeObject *Py_UNUSED(code))
{
    return 0;
}

Py_ssize_t
specialize_count_mortal_loads(PyCodeObject *Py_UNUSED(code))
{
    return 0;
}

#endif
#endif
