/* An extension as it was built for the stable ABI before CPython 3.12: its reference counting is
 * inline, on a field of 64 bits, and knows nothing of immortal objects. Such wheels load into
 * every later version. The macros are those of CPython 3.8's object.h, written out.
 */
#define Py_LIMITED_API 0x03080000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define COUNT(op) (*(Py_ssize_t *)(op))
#define OLD_INCREF(op) (COUNT(op)++)
#define OLD_DECREF(op) \
    do { \
        if (--COUNT(op) == 0) { \
            _Py_Dealloc((PyObject *)(op)); \
        } \
    } while (0)

static PyObject *
add(PyObject *args, int sign)
{
    PyObject *op;
    long long times;
    if (!PyArg_ParseTuple(args, "OL", &op, &times)) {
        return NULL;
    }
    /* At once: no thread looks at the counts in between, and none of them is 0. */
    COUNT(op) += sign * (Py_ssize_t)times;
    return PyLong_FromLong(0);
}

/* The counts that `times` calls of a function leave behind which takes a reference, hands it to
   the interpreter, and which the interpreter, seeing an immortal object, does not give back. */
static PyObject *
take(PyObject *self, PyObject *args)
{
    return add(args, 1);
}

/* The opposite: references that the interpreter handed out without counting them. */
static PyObject *
give(PyObject *self, PyObject *args)
{
    return add(args, -1);
}

/* The same as take(), reference by reference. */
static PyObject *
take_one_by_one(PyObject *self, PyObject *args)
{
    PyObject *op;
    long long times;
    if (!PyArg_ParseTuple(args, "OL", &op, &times)) {
        return NULL;
    }
    for (long long i = 0; i < times; i++) {
        (*(volatile Py_ssize_t *)op)++; /* volatile: not folded into one addition */
    }
    return PyLong_FromLong(0);
}

/* Return the argument: one reference is taken inline. */
static PyObject *
identity(PyObject *self, PyObject *op)
{
    OLD_INCREF(op);
    return op;
}

/* Look an attribute up and let it go: one reference is given inline. */
static PyObject *
touch(PyObject *self, PyObject *args)
{
    PyObject *op, *name;
    if (!PyArg_ParseTuple(args, "OO", &op, &name)) {
        return NULL;
    }
    PyObject *value = PyObject_GetAttr(op, name);
    if (value == NULL) {
        return NULL;
    }
    OLD_DECREF(value);
    return PyLong_FromLong(0);
}

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, NULL},
    {"give", give, METH_VARARGS, NULL},
    {"take_one_by_one", take_one_by_one, METH_VARARGS, NULL},
    {"identity", identity, METH_O, NULL},
    {"touch", touch, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "oldabi", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC
PyInit_oldabi(void)
{
    return PyModule_Create(&definition);
}
