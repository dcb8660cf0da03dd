/* The exit status of a process that ends by SystemExit is known to the interpreter alone,
 * in a local variable of Py_Exit, while atexit functions run. It reads `code` from the
 * exception when no Python frame is left; that read is what is observed here, through the
 * descriptor of SystemExit.code.
 */
#include "leave.h"

#ifndef CPY_UNSUPPORTED

static PyObject *exit_code; /* strong, or NULL */

static PyObject *
get_code(PyObject *self, void *Py_UNUSED(closure))
{
    PyObject *code = ((PySystemExitObject *)self)->code;
    if (code == NULL) {
        code = Py_None;
    }
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    if (frame == NULL) {
        Py_XSETREF(exit_code, Py_NewRef(code));
    }
    Py_XDECREF(frame);
    return Py_NewRef(code);
}

static int
set_code(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(((PySystemExitObject *)self)->code, Py_XNewRef(value));
    return 0;
}

static PyGetSetDef code_getset = {"code", get_code, set_code, "exception code", NULL};

int
leave_watch_system_exit(void)
{
    PyTypeObject *type = (PyTypeObject *)PyExc_SystemExit;
    PyObject *dict = cpy_type_dict(type);
    if (dict == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "SystemExit has no dictionary");
        return -1;
    }
    PyObject *descr = PyDescr_NewGetSet(type, &code_getset);
    int result = descr == NULL ? -1 : PyDict_SetItemString(dict, "code", descr);
    /* Not PyType_Modified(): it asserts that builtin types never change. A specialized read
       of the slot in Python code may go on; the interpreter's own goes through this cache. */
    PyType_ClearCache();
    Py_XDECREF(descr);
    Py_DECREF(dict);
    return result;
}

PyObject *
leave_system_exit_code(void)
{
    return Py_XNewRef(exit_code);
}

int
leave_run_last(PyObject *func)
{
    PyObject *atexit = PyImport_ImportModule("atexit");
    if (atexit == NULL) {
        return -1;
    }
    PyObject *registered = PyObject_CallMethod(atexit, "register", "O", func);
    Py_DECREF(atexit);
    if (registered == NULL) {
        return -1;
    }
    Py_DECREF(registered);
    return cpy_atexit_last_to_bottom();
}

#endif
