/* Types of a library from outside: each frees its objects itself, and gives back a buffer then.
 *
 * Holder(exporter, held)   holds a buffer of the exporter, and an object that it shows
 * Derived                  the same, without anything of its own
 * Frees                    derived, with a tp_dealloc of its own
 * Box(exporter, held)      as Holder, without showing the object
 * named(name)              a type like Holder whose tp_name is another
 * held(object)             what it holds
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

typedef struct {
    PyObject_HEAD Py_buffer *view; /* out of the object: its memory alone shows nothing */
    PyObject *held;
} holder;

#define HOLDER(op) ((holder *)(op))

static PyObject *
make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *exporter, *held = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &exporter, &held)) {
        return NULL;
    }
    PyObject *self = type->tp_alloc(type, 0);
    Py_buffer *view = self != NULL ? PyMem_Calloc(1, sizeof *view) : NULL;
    if (view == NULL || PyObject_GetBuffer(exporter, view, PyBUF_SIMPLE) < 0) {
        PyMem_Free(view);
        Py_XDECREF(self);
        return NULL;
    }
    HOLDER(self)->view = view;
    HOLDER(self)->held = Py_NewRef(held);
    return self;
}

static void
let_go(PyObject *self)
{
    if (HOLDER(self)->view != NULL) {
        PyBuffer_Release(HOLDER(self)->view);
        PyMem_Free(HOLDER(self)->view);
    }
    Py_CLEAR(HOLDER(self)->held);
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC)) {
        PyObject_GC_UnTrack(self);
    }
    let_go(self);
    type->tp_free(self);
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        Py_DECREF(type);
    }
}

static void
frees_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    let_go(self);
    Py_TYPE(self)->tp_free(self);
}

static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(HOLDER(self)->held);
    return 0;
}

static int
clear(PyObject *self)
{
    Py_CLEAR(HOLDER(self)->held);
    return 0;
}

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE)

static PyTypeObject holder_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "foreign.Holder",
    .tp_basicsize = sizeof(holder),
    .tp_flags = FLAGS | Py_TPFLAGS_HAVE_GC,
    .tp_new = make,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
};

static PyTypeObject derived_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "foreign.Derived",
    .tp_base = &holder_type,
    .tp_flags = FLAGS,
};

static PyTypeObject frees_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "foreign.Frees",
    .tp_base = &holder_type,
    .tp_flags = FLAGS,
    .tp_dealloc = frees_dealloc,
};

static PyTypeObject box_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "foreign.Box",
    .tp_basicsize = sizeof(holder),
    .tp_flags = FLAGS,
    .tp_new = make,
    .tp_dealloc = dealloc,
};

static PyObject *
named(PyObject *Py_UNUSED(module), PyObject *name)
{
    PyType_Slot slots[] = {{Py_tp_new, make},
                           {Py_tp_dealloc, dealloc},
                           {Py_tp_traverse, traverse},
                           {Py_tp_clear, clear},
                           {0, NULL}};
    PyType_Spec spec = {PyUnicode_AsUTF8(name), sizeof(holder), 0, FLAGS | Py_TPFLAGS_HAVE_GC,
                        slots};
    return PyType_FromSpec(&spec);
}

static PyObject *
held(PyObject *Py_UNUSED(module), PyObject *op)
{
    return Py_NewRef(HOLDER(op)->held);
}

static PyMethodDef methods[] = {
    {"named", named, METH_O, NULL},
    {"held", held, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "foreign",
                                        .m_methods = methods};

PyMODINIT_FUNC
PyInit_foreign(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyTypeObject *types[] = {&holder_type, &derived_type, &frees_type, &box_type};
    for (size_t i = 0; module != NULL && i < Py_ARRAY_LENGTH(types); i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            Py_CLEAR(module);
        }
    }
    return module;
}
