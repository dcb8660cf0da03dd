/* Gives two functions of the module gc another definition, which calls the one before and adds what is
 * frozen.
 *
 * The function objects stay, so that `from gc import get_objects` before the seal is met, too. What a
 * list shows is referred to, as by the interpreter; an immortal object is not written to by that.
 */
#include "shown.h"

#include "frozen.h"

#ifndef CPY_UNSUPPORTED

static PyObject *get_objects(PyObject *module, PyObject *args, PyObject *keywords);
static PyObject *get_referrers(PyObject *module, PyObject *args, PyObject *keywords);

typedef struct {
    PyMethodDef shown;
    PyObject *plain; /* a function of the former definition; NULL: it still has that */
} definition;

#define DEFINITION(function) \
    {{#function, (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS, NULL}, NULL}

static definition objects = DEFINITION(get_objects), referrers = DEFINITION(get_referrers);

static int
append_shown(PyObject *op, void *list)
{
    return frozen_is_own(op) ? 0 : PyList_Append(list, op);
}

/* Precondition: the arguments are those of a call that has succeeded. */
static bool
has_oldest(PyObject *args, PyObject *keywords)
{
    PyObject *generation = NULL;
    if (PyTuple_GET_SIZE(args)) {
        generation = PyTuple_GET_ITEM(args, 0);
    }
    else if (keywords != NULL) {
        generation = PyDict_GetItemString(keywords, "generation");
    }
    if (generation == NULL || !PyLong_Check(generation)) {
        return generation == NULL || generation == Py_None;
    }
    long number = PyLong_AsLong(generation);
    return number == -1 || number == CPY_GENERATIONS - 1; /* the function takes -1 for None */
}

static PyObject *
get_objects(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    PyObject *found = PyObject_Call(objects.plain, args, keywords);
    if (found != NULL && has_oldest(args, keywords)
        && cpy_gc_list_visit(cpy_gc_permanent(cpy_gc_state()), append_shown, found) < 0) {
        Py_CLEAR(found);
    }
    return found;
}

static int
is_one_of(PyObject *op, void *objs)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objs); i++) {
        if (PyTuple_GET_ITEM(objs, i) == op) {
            return 1;
        }
    }
    return 0;
}

typedef struct {
    PyObject *objs, *found;
} search;

static int
append_referrer(PyObject *op, void *arg)
{
    search *s = arg;
    bool refers = Py_TYPE(op)->tp_traverse(op, is_one_of, s->objs);
    return refers ? append_shown(op, s->found) : 0;
}

static PyObject *
get_referrers(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    search s = {args, PyObject_Call(referrers.plain, args, keywords)};
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
        d->plain = PyCFunction_NewEx(own->m_ml, own->m_self, own->m_module);
        if (d->plain != NULL) {
            d->shown.ml_doc = own->m_ml->ml_doc;
            own->m_ml = &d->shown;
            own->vectorcall = NULL; /* none for these kinds of arguments */
        }
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
