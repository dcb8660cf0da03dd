/* The registered types, and the loop over the items of one container.
 *
 * Owns a reference to each registered type and function, as long as the interpreter lives. A container whose type has
 * several registered bases is asked through the one that was registered last.
 */
#include "containers.h"

#ifndef CPY_UNSUPPORTED

typedef struct {
    PyTypeObject *type;
    PyObject *iterate;
} container_type;

static container_type *known;
static size_t known_count;

int
containers_register(PyTypeObject *type, PyObject *iterate)
{
    for (size_t i = 0; i < known_count; i++) {
        if (known[i].type == type) {
            Py_SETREF(known[i].iterate, Py_NewRef(iterate));
            return 0;
        }
    }
    container_type *more = PyMem_RawRealloc(known, (known_count + 1) * sizeof *known);
    if (more == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    known = more;
    known[known_count++] = (container_type){(PyTypeObject *)Py_NewRef(type), Py_NewRef(iterate)};
    return 0;
}

void
containers_forget(void)
{
    PyMem_RawFree(known);
    known = NULL;
    known_count = 0;
}

static const container_type *
find(PyTypeObject *type)
{
    for (size_t i = known_count; i > 0; i--) {
        if (PyType_IsSubtype(type, known[i - 1].type)) {
            return &known[i - 1];
        }
    }
    return NULL;
}

bool
containers_is_known(containers_lookup *last, PyTypeObject *type)
{
    if (type != last->type) {
        *last = (containers_lookup){type, find(type) != NULL};
    }
    return last->known;
}

static int
visit_items(PyObject *items, visitproc visit, void *arg)
{
    int result = 0;
    PyObject *item;
    while (result == 0 && (item = PyIter_Next(items)) != NULL) {
        result = visit(item, arg);
        Py_DECREF(item);
    }
    return result;
}

int
containers_visit(PyObject *op, visitproc visit, void *arg, bool *failed)
{
    const container_type *found = find(Py_TYPE(op));
    if (found == NULL) {
        return 0;
    }
    PyObject *iterate = Py_NewRef(found->iterate); /* it may register another */
    int result = 0;
    PyObject *items = NULL;
    PyObject *iterable = PyObject_CallOneArg(iterate, op);
    if (iterable != NULL && (items = PyObject_GetIter(iterable)) != NULL) {
        result = visit_items(items, visit, arg);
    }
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_WriteUnraisable(iterate);
        *failed = true;
    }
    else if (PyErr_Occurred()) {
        result = -1;
    }
    Py_XDECREF(items);
    Py_XDECREF(iterable);
    Py_DECREF(iterate);
    return result;
}

#endif
