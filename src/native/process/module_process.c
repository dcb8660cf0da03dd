/* Python's way to what belongs to the process: its threads, its end, and its parent. */
#include "../module.h"

#ifndef CPY_UNSUPPORTED

#include "exit.h"
#include "prctl.h"
#include "scratch.h"

#include <errno.h>

static PyObject *
python_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Py_ssize_t count = 0;
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        count++;
    }
    return PyLong_FromSsize_t(count);
}

static PyObject *
atexit_run_last(PyObject *Py_UNUSED(module), PyObject *func)
{
    if (!PyCallable_Check(func)) {
        PyErr_SetString(PyExc_TypeError, "the function must be callable");
        return NULL;
    }
    if (exit_run_last(func) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
watch_system_exit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (exit_watch_system_exit() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
files(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return exit_files();
}

static PyObject *
note_frozen_files(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (exit_note_frozen_files() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
exit_process(PyObject *Py_UNUSED(module), PyObject *status)
{
    long value = PyLong_AsLong(status);
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    exit_now((int)(value & 0xff));
}

static PyObject *
limit_exit(PyObject *Py_UNUSED(module), PyObject *args)
{
    int status, seconds;
    if (!PyArg_ParseTuple(args, "ii", &status, &seconds)) {
        return NULL;
    }
    exit_limit(status & 0xff, (unsigned int)Py_MAX(seconds, 1));
    Py_RETURN_NONE;
}

static PyObject *
lift_exit_limit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    exit_lift_limit();
    Py_RETURN_NONE;
}

static PyObject *
system_exit_code(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *code = exit_system_exit_code();
    if (code == NULL) {
        PyErr_SetString(PyExc_LookupError, "no SystemExit is ending the process");
    }
    return code;
}

static PyObject *
none_or_os_error(int err)
{
    if (err) {
        errno = err;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *
adopt_orphans(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return none_or_os_error(prctl_adopt_orphans());
}

static PyObject *
die_with_parent(PyObject *Py_UNUSED(module), PyObject *signal)
{
    int number = (int)PyLong_AsLong(signal);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return none_or_os_error(prctl_die_with_parent(number));
}

#ifdef PASTURE_CHECK
static PyObject *
fail_scratch_after(PyObject *Py_UNUSED(module), PyObject *successes)
{
    long count = PyLong_AsLong(successes);
    if (count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    scratch_fail_after(count);
    Py_RETURN_NONE;
}
#endif

PyMethodDef module_process_methods[] = {
    {"python_threads", python_threads, METH_NOARGS, NULL},
    {"atexit_run_last", atexit_run_last, METH_O, NULL},
    {"watch_system_exit", watch_system_exit, METH_NOARGS, NULL},
    {"files", files, METH_NOARGS, NULL},
    {"note_frozen_files", note_frozen_files, METH_NOARGS, NULL},
    {"exit_process", exit_process, METH_O, NULL},
    {"limit_exit", limit_exit, METH_VARARGS, NULL},
    {"lift_exit_limit", lift_exit_limit, METH_NOARGS, NULL},
    {"system_exit_code", system_exit_code, METH_NOARGS, NULL},
    {"adopt_orphans", adopt_orphans, METH_NOARGS, NULL},
    {"die_with_parent", die_with_parent, METH_O, NULL},
#ifdef PASTURE_CHECK
    {"fail_scratch_after", fail_scratch_after, METH_O, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

#endif
