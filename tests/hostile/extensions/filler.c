/* Tuples and frozensets that C code fills step by step, with calls of Python in between, through
 * functions that refuse another count than 1: PyTuple_SetItem, _PyTuple_Resize, PySet_Add.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Fill `made`, which is owned, with call(0), call(1), ...; a new reference to it, or NULL. */
static PyObject *
fill(PyObject *made, Py_ssize_t from, Py_ssize_t size, PyObject *call)
{
    for (Py_ssize_t i = from; made != NULL && i < size; i++) {
        PyObject *item = PyObject_CallFunction(call, "n", i);
        if (item == NULL || PyTuple_SetItem(made, i, item) < 0) {
            Py_CLEAR(made);
        }
    }
    return made;
}

static PyObject *
fill_tuple(PyObject *module, PyObject *args)
{
    Py_ssize_t size;
    PyObject *call;
    if (!PyArg_ParseTuple(args, "nO", &size, &call)) {
        return NULL;
    }
    return fill(PyTuple_New(size), 0, size, call);
}

/* A tuple of a subclass. */
static PyObject *
fill_type(PyObject *module, PyObject *args)
{
    PyTypeObject *type;
    Py_ssize_t size;
    PyObject *call;
    if (!PyArg_ParseTuple(args, "OnO", &type, &size, &call)) {
        return NULL;
    }
    return fill(type->tp_alloc(type, size), 0, size, call);
}

/* Each item is there from the start, and is replaced. */
static PyObject *
replace_items(PyObject *module, PyObject *args)
{
    Py_ssize_t size;
    PyObject *call;
    if (!PyArg_ParseTuple(args, "nO", &size, &call)) {
        return NULL;
    }
    PyObject *made = PyTuple_New(size);
    for (Py_ssize_t i = 0; made != NULL && i < size; i++) {
        PyTuple_SET_ITEM(made, i, PyList_New(0));
    }
    return fill(made, 0, size, call);
}

/* A tuple in a tuple that owns it already; neither is full. */
static PyObject *
fill_nested(PyObject *module, PyObject *args)
{
    Py_ssize_t size;
    PyObject *call;
    if (!PyArg_ParseTuple(args, "nO", &size, &call)) {
        return NULL;
    }
    PyObject *outer = PyTuple_New(2), *inner = PyTuple_New(size);
    if (outer == NULL || inner == NULL || PyTuple_SetItem(outer, 0, inner) < 0) {
        return NULL;
    }
    if (fill(inner, 0, size, call) == NULL) {
        return NULL;
    }
    PyObject *item = PyObject_CallFunction(call, "n", size);
    return item == NULL || PyTuple_SetItem(outer, 1, item) < 0 ? NULL : outer;
}

/* Twice as large as at first, each time that it is full. */
static PyObject *
grow_tuple(PyObject *module, PyObject *args)
{
    Py_ssize_t size, have = 2;
    PyObject *call;
    if (!PyArg_ParseTuple(args, "nO", &size, &call)) {
        return NULL;
    }
    PyObject *made = fill(PyTuple_New(have), 0, have, call);
    while (made != NULL && have < size) {
        Py_ssize_t more = Py_MIN(2 * have, size);
        if (_PyTuple_Resize(&made, more) < 0) {
            return NULL;
        }
        made = fill(made, have, more, call);
        have = more;
    }
    return made;
}

static PyObject *
fill_frozenset(PyObject *module, PyObject *args)
{
    Py_ssize_t size;
    PyObject *call, *type = (PyObject *)&PyFrozenSet_Type;
    if (!PyArg_ParseTuple(args, "nO|O", &size, &call, &type)) {
        return NULL;
    }
    PyObject *made =
        type == (PyObject *)&PyFrozenSet_Type ? PyFrozenSet_New(NULL) : PyObject_CallNoArgs(type);
    for (Py_ssize_t i = 0; made != NULL && i < size; i++) {
        PyObject *item = PyObject_CallFunction(call, "n", i);
        if (item == NULL || PySet_Add(made, item) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(item);
    }
    return made;
}

/* --- An object that keeps the tuple that it fills --------------------------------------- */

typedef struct {
    PyObject_HEAD PyObject *tuple;
    Py_ssize_t used;
} builder;

static int
builder_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((builder *)self)->tuple);
    return 0;
}

static void
builder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((builder *)self)->tuple);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
builder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "n", &size)) {
        return NULL;
    }
    builder *self = (builder *)type->tp_alloc(type, 0);
    if (self != NULL && (self->tuple = PyTuple_New(size)) == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* The length of the tuple when it is full, or None. */
static PyObject *
builder_add(PyObject *op, PyObject *item)
{
    builder *self = (builder *)op;
    if (PyTuple_SetItem(self->tuple, self->used++, Py_NewRef(item)) < 0) {
        return NULL;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(self->tuple);
    return self->used == size ? PyLong_FromSsize_t(size) : Py_NewRef(Py_None);
}

static PyMethodDef builder_methods[] = {{"add", builder_add, METH_O, NULL}, {NULL}};

static PyType_Slot builder_slots[] = {{Py_tp_new, builder_new},
                                      {Py_tp_dealloc, builder_dealloc},
                                      {Py_tp_traverse, builder_traverse},
                                      {Py_tp_methods, builder_methods},
                                      {0, NULL}};

static PyType_Spec builder_spec = {"filler.Builder", sizeof(builder), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, builder_slots};

static PyMethodDef methods[] = {{"fill_tuple", fill_tuple, METH_VARARGS, NULL},
                                {"fill_type", fill_type, METH_VARARGS, NULL},
                                {"replace_items", replace_items, METH_VARARGS, NULL},
                                {"fill_nested", fill_nested, METH_VARARGS, NULL},
                                {"grow_tuple", grow_tuple, METH_VARARGS, NULL},
                                {"fill_frozenset", fill_frozenset, METH_VARARGS, NULL},
                                {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "filler", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC
PyInit_filler(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module != NULL ? PyType_FromSpec(&builder_spec) : NULL;
    if (type == NULL || PyModule_AddObject(module, "Builder", type) < 0) {
        return NULL;
    }
    return module;
}
