#define NEED_OPCODE_METADATA /* the tables of instruction lengths: defined once, here */
#include "bytecode.h"

#ifndef CPY_UNSUPPORTED

#if CPY_HAS_FIRST_RUN_REWRITES

static bool keeps_first_run;

void
bytecode_keep_first_run(bool keep)
{
    keeps_first_run = keep;
}

static PyObject *
constant_of(PyCodeObject *code, _Py_CODEUNIT unit, unsigned int oparg)
{
    if (!cpy_loads_constant(unit) || oparg >= (size_t)PyTuple_GET_SIZE(code->co_consts)) {
        return NULL;
    }
    return PyTuple_GET_ITEM(code->co_consts, oparg);
}

Py_ssize_t
bytecode_settle(PyCodeObject *code)
{
    if (!cpy_code_is_plain(code)) {
        return 0;
    }
    Py_ssize_t rewritten = 0;
    unsigned int extended = 0;
    _Py_CODEUNIT *units = _PyCode_CODE(code);
    Py_ssize_t count = Py_SIZE(code);
    for (Py_ssize_t i = 0; i < count; i += cpy_instruction_units(units[i])) {
        unsigned int oparg = extended << 8 | units[i].op.arg;
        extended = units[i].op.code == EXTENDED_ARG ? oparg : 0;
        uint8_t settled = cpy_first_run_opcode(units[i], constant_of(code, units[i], oparg));
        if (settled != units[i].op.code && !(keeps_first_run && units[i].op.code == RESUME)) {
            units[i].op.code = settled;
            rewritten++;
        }
    }
    return rewritten;
}

#else

void
bytecode_keep_first_run(bool Py_UNUSED(keep))
{
}

Py_ssize_t
bytecode_settle(PyCodeObject *Py_UNUSED(code))
{
    return 0;
}

#endif
#endif
