/* A container that says at one time that it takes part in garbage collection and at another
 * that it does not, while it stands in the collector's lists throughout. As greenlets do: an
 * active one is none, because its references lie on a stack that cannot be traversed.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

typedef struct {
    PyObject_HEAD
    int is_container;
    PyObject *held;
    PyObject *weakrefs;
} fickle;

static int
is_gc(PyObject *self)
{
    return ((fickle *)self)->is_container;
}

static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((fickle *)self)->held);
    return 0;
}

static int
clear(PyObject *self)
{
    Py_CLEAR(((fickle *)self)->held);
    return 0;
}

static PyObject *
make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    fickle *self = (fickle *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->is_container = 1;
    }
    return (PyObject *)self;
}

static void
dealloc(PyObject *self)
{
    ((fickle *)self)->is_container = 1;
    PyObject_GC_UnTrack(self);
    if (((fickle *)self)->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_CLEAR(((fickle *)self)->held);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
set_container(PyObject *self, PyObject *truth)
{
    ((fickle *)self)->is_container = PyObject_IsTrue(truth);
    Py_RETURN_NONE;
}

static PyObject *
hold(PyObject *self, PyObject *object)
{
    Py_XSETREF(((fickle *)self)->held, Py_NewRef(object));
    Py_RETURN_NONE;
}

static PyObject *
held(PyObject *self, PyObject *none)
{
    PyObject *object = ((fickle *)self)->held;
    return Py_NewRef(object != NULL ? object : Py_None);
}

static PyMethodDef methods[] = {
    {"set_container", set_container, METH_O, NULL},
    {"hold", hold, METH_O, NULL},
    {"held", held, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject fickle_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fickle.Fickle",
    .tp_basicsize = sizeof(fickle),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = make,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_is_gc = is_gc,
    .tp_methods = methods,
    .tp_weaklistoffset = offsetof(fickle, weakrefs),
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "fickle", .m_size = -1};

PyMODINIT_FUNC
PyInit_fickle(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddType(module, &fickle_type) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
