/* Makes the samples. The code that makes them is run, and ends with the call of a function in
 * Python, which calls one in C: that goes through the table.
 */
#include "layout_samples.h"

#ifndef CPY_UNSUPPORTED

/* While `call` runs, its caller keeps one object on its stack: the key. `settle` runs once, to see what that changes; `later` makes a generator that never runs. */
static const char source[] = "def make():\n"
                             "    def call(look, mark):\n"
                             "        return look(mark)\n"
                             "    return call\n"
                             "def settle(again):\n"
                             "    done = None\n"
                             "    while again:\n"
                             "        again = done\n"
                             "def read():\n"
                             "    return mark\n"
                             "def later(mark):\n"
                             "    yield\n"
                             "call = make()\n"
                             "generator = later(mark)\n"
                             "dict = {key: mark}\n"
                             "key, call(look, mark)\n";

typedef struct {
    layout_samples samples;
    int (*look)(layout_samples *); /* NULL: not while the code runs */
} sample_run;

static sample_run no_run; /* for the function, if a tool keeps it */

static PyObject *
look(PyObject *self, PyObject *mark)
{
    sample_run *run = PyCapsule_GetPointer(self, NULL);
    if (run->look == NULL) {
        Py_RETURN_NONE;
    }
    layout_samples *made = &run->samples;
    made->mark = mark;
    made->call = cpy_dict_get_ascii(made->globals, "call");
    made->settle = cpy_dict_get_ascii(made->globals, "settle");
    made->read = cpy_dict_get_ascii(made->globals, "read");
    made->later = cpy_dict_get_ascii(made->globals, "later");
    made->generator = cpy_dict_get_ascii(made->globals, "generator");
    made->dict = cpy_dict_get_ascii(made->globals, "dict");
    return run->look(made) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef look_method = {"look", look, METH_O, NULL};

/* New dictionary of names for the code, or NULL with an exception set. */
static PyObject *
make_globals(layout_samples *samples, PyObject *capsule)
{
    PyObject *mark = PyList_New(0);
    samples->look = PyCFunction_New(&look_method, capsule);
    PyObject *globals =
        mark && samples->look
            ? Py_BuildValue("{s:O,s:O,s:O,s:O}", "look", samples->look, "mark", mark, "key",
                            samples->key, "__builtins__", PyEval_GetBuiltins())
            : NULL;
    Py_XDECREF(mark);
    Py_XDECREF(samples->look); /* the dictionary holds it */
    return globals;
}

static int
run_code(layout_samples *samples, PyObject *capsule)
{
    samples->globals = make_globals(samples, capsule);
    PyObject *code = samples->globals ? Py_CompileString(source, "<pasture>", Py_file_input) : NULL;
    PyObject *value = code ? PyEval_EvalCode(code, samples->globals, samples->globals) : NULL;
    Py_XDECREF(code);
    Py_XDECREF(value);
    if (samples->globals != NULL) {
        PyDict_Clear(samples->globals); /* its functions refer to it */
    }
    Py_XDECREF(samples->globals);
    return value == NULL ? -1 : 0;
}

int
layout_with_samples(int (*look)(layout_samples *samples))
{
    sample_run run = {.look = look};
    layout_samples *samples = &run.samples;
    PyObject *capsule = PyCapsule_New(&run, NULL, NULL);
    PyTypeObject *type = capsule ? cpy_find_type("_frozen_importlib", "ModuleSpec") : NULL;
    samples->gc = type ? PyImport_ImportModule("gc") : NULL;
    samples->key = samples->gc ? PyUnicode_InternFromString("pasture") : NULL;
    samples->instance =
        samples->key ? PyObject_CallFunction((PyObject *)type, "OO", samples->key, Py_None) : NULL;
    int done = samples->instance ? run_code(samples, capsule) : -1;
    if (capsule != NULL) {
        (void)PyCapsule_SetPointer(capsule, &no_run);
    }
    Py_XDECREF(samples->instance);
    Py_XDECREF(samples->key);
    Py_XDECREF(samples->gc);
    Py_XDECREF((PyObject *)type);
    Py_XDECREF(capsule);
    return done;
}

#endif
