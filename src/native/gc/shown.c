/* Gives two functions of the module gc another definition, which calls the one before and adds what is
 * frozen.
 *
 * The function objects stay, so that `from gc import get_objects` before the seal is met, too. What a
 * list shows is referred to, as by the interpreter; an immortal object is not written to by that.
 */
#include "shown.h"

#include "frozen.h"

#ifndef CPY_UNSUPPORTED

static PyObject *get_objects(PyObject *module, PyObject *const *args, Py_ssize_t count,
                             PyObject *names);
static PyObject *get_referrers(PyObject *module, PyObject *const *args, Py_ssize_t count,
                               PyObject *names);

typedef struct {
    PyMethodDef shown;
    PyObject *plain; /* a function of the former definition; NULL: it still has that */
} definition;

/* Called in this way nothing is made that the functions would show. */
#define DEFINITION(function) \
    {{#function, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, NULL}, \
     NULL}

static definition objects = DEFINITION(get_objects), referrers = DEFINITION(get_referrers);

static int
append_shown(PyObject *op, void *list)
{
    return frozen_is_own(op) ? 0 : PyList_Append(list, op);
}

/* Precondition: the argument, if there is one, is that of a call that has succeeded. */
static bool
has_oldest(PyObject *generation)
{
    if (generation == NULL || generation == Py_None) {
        return true;
    }
    Py_ssize_t number = PyNumber_AsSsize_t(generation, NULL);
    PyErr_Clear();                                        /* of an object that is a number once */
    return number == -1 || number == CPY_GENERATIONS - 1; /* the function takes -1 for None */
}

static PyObject *
get_objects(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *found = PyObject_Vectorcall(objects.plain, args, (size_t)count, names);
    bool has_argument = count > 0 || names != NULL;
    if (found != NULL && has_oldest(has_argument ? args[0] : NULL)
        && cpy_gc_list_visit(cpy_gc_permanent(cpy_gc_state()), append_shown, found) < 0) {
        Py_CLEAR(found);
    }
    return found;
}

typedef struct {
    PyObject *const *args;
    Py_ssize_t count;
    PyObject *found;
} search;

static int
is_one_of(PyObject *op, void *arg)
{
    search *s = arg;
    for (Py_ssize_t i = 0; i < s->count; i++) {
        if (s->args[i] == op) {
            return 1;
        }
    }
    return 0;
}

static int
append_referrer(PyObject *op, void *arg)
{
    search *s = arg;
    return Py_TYPE(op)->tp_traverse(op, is_one_of, s) ? append_shown(op, s->found) : 0;
}

static PyObject *
get_referrers(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    search s = {args, count, PyObject_Vectorcall(referrers.plain, args, (size_t)count, names)};
    if (s.found != NULL
        && cpy_gc_list_visit(cpy_gc_permanent(cpy_gc_state()), append_referrer, &s) < 0) {
        Py_CLEAR(s.found);
    }
    return s.found;
}

/* Another definition for a function of the module. Its former one goes on in a function of ours. */
static int
define(PyObject *gc, definition *d)
{
    PyObject *function = d->plain == NULL ? PyObject_GetAttrString(gc, d->shown.ml_name) : NULL;
    if (function != NULL && PyCFunction_CheckExact(function)
        && PyCFunction_GET_SELF(function) == gc) {
        PyCFunctionObject *own = (PyCFunctionObject *)function;
        PyObject *other = PyCFunction_NewEx(&d->shown, own->m_self, own->m_module);
        d->plain = other != NULL ? PyCFunction_NewEx(own->m_ml, own->m_self, own->m_module) : NULL;
        if (d->plain != NULL) {
            d->shown.ml_doc = own->m_ml->ml_doc;
            own->m_ml = &d->shown;
            own->vectorcall = ((PyCFunctionObject *)other)->vectorcall;
        }
        Py_XDECREF(other);
    }
    Py_XDECREF(function);
    return PyErr_Occurred() ? -1 : 0;
}

int
shown_begin(void)
{
    PyObject *gc = PyImport_ImportModule("gc");
    int err = gc == NULL || define(gc, &objects) < 0 || define(gc, &referrers) < 0 ? -1 : 0;
    Py_XDECREF(gc);
    return err;
}

void
shown_forget(void)
{
    objects.plain = referrers.plain = NULL;
}

#endif
