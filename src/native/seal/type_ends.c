/* Looks at slots, at methods of bases that are written in C, and at the code of `__del__`. */
#include "type_ends.h"

#include "memory_types.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

/* Types of the standard library that hold something, and show it by nothing but their names.
   tests/hostile/c_types.toml has all types, and what the end of each gives back. */
static const char *const silent_types[] = {
    "_sre.SRE_Scanner",                         /* a buffer */
    "managedbuffer",                            /* a place in a list that memoryviews rely on */
    "sqlite3.Statement",                        /* its connection open */
    "_multiprocessing.SemLock",                 /* a mapping, for each semaphore */
    "_thread._ThreadHandle",                    /* the stack of a thread that was not joined */
    "_ssl._SSLContext",                         /* the file of its keylog_filename */
    "_tokenize.TokenizerIter",                  /* its readline, and so a file, out of sight */
    "_remote_debugging.RemoteUnwinder",         /* the memory of another process */
    "_remote_debugging.GCMonitor",              /* the same */
    "_interpreters.CrossInterpreterBufferView", /* a buffer of another interpreter */
    "_interpchannels.ChannelID",                /* the channel */
    "_xxinterpchannels.ChannelID",              /* the same, in 3.12 */
    "InterpreterID",                            /* the interpreter */
    "_lsprof.Profiler",                         /* the profile of the thread */
    "_curses_panel.panel",                      /* its place among the others */
    "_tkinter.tkapp",                           /* windows */
};

static destructor class_dealloc;

static struct {
    PyObject *close, *release, *acquire, *del, *clear;
} names;

static bool
is_class(PyTypeObject *type)
{
    return type->tp_dealloc == class_dealloc || type == &PyBaseObject_Type;
}

/* The attribute of the type or of a base: borrowed, or NULL. */
static PyObject *
find_in_bases(PyTypeObject *type, PyObject *name, bool *is_unknown)
{
    PyObject *found = NULL;
    for (Py_ssize_t i = 0; found == NULL && i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *dict = cpy_type_dict((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i));
        /* not reached: a type that is found is ready, and has one */
        found = dict != NULL ? cpy_dict_get(dict, name, is_unknown) : NULL;
        Py_XDECREF(dict);
    }
    return found;
}

bool
type_ends_clears_in_c(PyObject *op)
{
    bool is_unknown = false;
    PyObject *clear = find_in_bases(Py_TYPE(op), names.clear, &is_unknown);
    return !is_unknown && Py_TYPE(op)->tp_getattro == PyObject_GenericGetAttr
           && (clear == NULL || Py_IS_TYPE(clear, &PyMethodDescr_Type));
}

/* Whether to set and delete an attribute, and to clear what it is, runs no code of the type. */
static bool
is_plain_attribute(PyTypeObject *type, PyObject *name, bool clears)
{
    bool is_unknown = false;
    PyObject *attribute = find_in_bases(type, name, &is_unknown);
    if (is_unknown) {
        return false;
    }
    if (attribute == NULL || Py_IS_TYPE(attribute, &PyMemberDescr_Type)) {
        return true;
    }
    if (Py_IS_TYPE(attribute, &PyGetSetDescr_Type)) {
        return ((PyDescrObject *)attribute)->d_type->tp_dealloc == class_dealloc;
    }
    PyTypeObject *kind = Py_TYPE(attribute);
    return kind->tp_descr_set == NULL
           && (!clears || kind->tp_descr_get != NULL || type_ends_clears_in_c(attribute));
}

/* Whether all that `__del__` does is to let go of other objects, as classes do that would be in
   cycles: these objects have owners of their own, if their end matters. */
static bool
only_lets_go(PyTypeObject *type, bool *clears)
{
    for (PyTypeObject *base = type; base != NULL; base = base->tp_base) {
        if (!is_class(base) && cpy_type_finalizes(base)) {
            return false;
        }
    }
    bool is_unknown = false;
    PyObject *finalizer = find_in_bases(type, names.del, &is_unknown);
    if (is_unknown || finalizer == NULL /* not reached: a class finalizes by what it has there */
        || !PyFunction_Check(finalizer) || type->tp_getattro != PyObject_GenericGetAttr
        || type->tp_setattro != PyObject_GenericSetAttr) {
        return false;
    }
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)finalizer)->func_code;
    bool plain = cpy_code_only_lets_go(code, clears);
    for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(code->co_names); i++) {
        plain = is_plain_attribute(type, PyTuple_GET_ITEM(code->co_names, i), *clears);
    }
    return plain;
}

/* Whether a type written in C has a method that gives back what its objects hold. */
static bool
has_closing_method(PyTypeObject *type)
{
    PyObject *dict = cpy_type_dict(type);
    if (dict == NULL) { /* not reached: a type that is found is ready, and has one */
        return false;
    }
    bool is_unknown = false;
    bool closes = cpy_dict_get(dict, names.close, &is_unknown) != NULL
                  || (cpy_dict_get(dict, names.release, &is_unknown) != NULL
                      && cpy_dict_get(dict, names.acquire, &is_unknown) == NULL);
    Py_DECREF(dict);
    return closes || is_unknown;
}

static bool
is_silent(PyTypeObject *type)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(silent_types); i++) {
        if (strcmp(type->tp_name, silent_types[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Looks at the bases that are written in C alone: a method of a class written in Python calls
   something else, and that has an end of its own. */
type_end
type_ends_look_up(PyTypeObject *type)
{
    type_end end = {.type = type};
    end.finalizes = cpy_type_finalizes(type) && !only_lets_go(type, &end.clears);
    bool is_known = false; /* and so are its bases */
    for (PyTypeObject *base = type; base != NULL; base = base->tp_base) {
        is_known = is_known || memory_types_is_registered(base);
        if (is_class(base)) {
            continue;
        }
        end.in_c = end.in_c || !type_ends_is_plain_container(base);
        bool is_foreign = !is_known && memory_types_is_foreign(base);
        is_known = is_known || (is_foreign && memory_types_is_listed(base));
        end.foreign = end.foreign == NULL && is_foreign && !is_known ? base : end.foreign;
        end.closes = end.closes || (!is_known && (has_closing_method(base) || is_silent(base)));
    }
    return end;
}

int
type_ends_prepare(void)
{
    if (class_dealloc == NULL && (class_dealloc = cpy_find_class_dealloc()) == NULL) {
        return -1;
    }
    const struct {
        PyObject **name;
        const char *text;
    } wanted[] = {{&names.close, "close"},
                  {&names.release, "release"},
                  {&names.acquire, "acquire"},
                  {&names.del, "__del__"},
                  {&names.clear, "clear"}};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) { /* an earlier call may have had some */
        PyObject **name = wanted[i].name;
        if (*name == NULL && (*name = PyUnicode_InternFromString(wanted[i].text)) == NULL) {
            return -1;
        }
    }
    memory_types_prepare();
    return 0;
}

void
type_ends_forget(void)
{
    class_dealloc = NULL;
    memset(&names, 0, sizeof names);
}

#endif
#endif
