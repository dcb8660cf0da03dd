/* How the end of an object shows: in its type, and in the weak references to it. */
#ifndef PASTURE_CPYTHON_ENDS_H
#define PASTURE_CPYTHON_ENDS_H

#include "code.h"
#include "dict.h"
#include "pycore.h"
#include "type.h"

/* Whether a collection leaves weak references without a callback to its garbage until that has been
   finalized. */
#define CPY_FINALIZERS_SEE_WEAK_REFERENCES (PY_VERSION_HEX >= 0x030F0000)

/* The newest weak reference to an object that is not a type, or NULL. The others follow by wr_next. */
static inline PyWeakReference *
cpy_weakrefs(PyObject *op)
{
    Py_ssize_t offset = Py_TYPE(op)->tp_weaklistoffset;
    return offset != 0 ? *(PyWeakReference **)((char *)op + offset) : NULL;
}

/* tp_dealloc of classes made in Python, or NULL with an exception set. */
static inline destructor
cpy_find_class_dealloc(void)
{
    PyTypeObject *type = cpy_find_type("_frozen_importlib", "ModuleSpec");
    destructor dealloc = type != NULL ? type->tp_dealloc : NULL;
    Py_XDECREF(type);
    return dealloc;
}

/* Whether freeing an object of the type runs code that the type was given for its end. */
static inline bool
cpy_type_finalizes(PyTypeObject *type)
{
    return type->tp_finalize != NULL || type->tp_del != NULL;
}

#if CPY_HAS_IMMORTALITY
/* Instructions that read, set and delete attributes, and call the method that was read last. */
static inline bool
cpy_lets_go(int opcode)
{
    switch (opcode) {
    case RESUME:
    case NOP:
    case LOAD_FAST:
    case LOAD_FAST_CHECK:
    case LOAD_CONST:
    case LOAD_ATTR:
    case STORE_ATTR:
    case DELETE_ATTR:
    case CALL:
    case POP_TOP:
    case RETURN_VALUE:
#  ifdef RETURN_CONST
    case RETURN_CONST:
#  endif
#  ifdef LOAD_FAST_BORROW
    case LOAD_FAST_BORROW:
#  endif
#  ifdef LOAD_COMMON_CONSTANT
    case LOAD_COMMON_CONSTANT:
#  endif
        return true;
    default:
        return false;
    }
}

static inline bool
cpy_loads_local(int opcode)
{
    switch (opcode) {
    case LOAD_FAST:
    case LOAD_FAST_CHECK:
#  ifdef LOAD_FAST_BORROW
    case LOAD_FAST_BORROW:
#  endif
        return true;
    default:
        return false;
    }
}

/* Whether a `__del__` does no more than let go of what its object refers to: it sets and deletes
   attributes of the object itself, and calls no method but `clear` of what these hold, which is then
   said in `clears`. Anything that is not known counts as more. */
static inline bool
cpy_code_only_lets_go(PyCodeObject *code, bool *clears)
{
    if (!cpy_code_is_plain(code) || code->co_nlocals != 1) {
        return false;
    }
    const _Py_CODEUNIT *units = _PyCode_CODE(code);
    int before = NOP;
    for (Py_ssize_t i = 0; i < Py_SIZE(code); i += cpy_instruction_units(units[i])) {
        int opcode = _PyOpcode_Deopt[units[i].op.code], name = units[i].op.arg >> 1;
        if (!cpy_lets_go(opcode)) {
            return false;
        }
        if (opcode == LOAD_ATTR && units[i].op.arg & 1) {
            if (before != LOAD_ATTR || name >= PyTuple_GET_SIZE(code->co_names)
                || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, name), "clear")
                       != 0) {
                return false;
            }
            *clears = true;
        }
        else if ((opcode == LOAD_ATTR || opcode == STORE_ATTR || opcode == DELETE_ATTR)
                 && !cpy_loads_local(before)) {
            return false;
        }
        before = opcode;
    }
    return true;
}
#endif

/* Whether buffers of such objects are counted, and must be released. */
static inline bool
cpy_type_counts_buffers(PyTypeObject *type)
{
    return type->tp_as_buffer != NULL && type->tp_as_buffer->bf_releasebuffer != NULL;
}

/* Borrowed: the dictionary of a module that was imported, or NULL. */
static inline PyObject *
cpy_imported_dict(PyObject *modules, const char *name)
{
    PyObject *module = cpy_dict_get_ascii(modules, name);
    return module != NULL && PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
}

#endif
