/* Python's way to a process that stops to be copied, and to the interpreter's own main program. */
#define _GNU_SOURCE
#include "../module.h"

#ifndef CPY_UNSUPPORTED

#include "freeze.h"

#include "../cpython/main.h"

#include <errno.h>
#include <stdlib.h>

static PyObject *
frozen_facts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("(Kn)", (unsigned long long)(uintptr_t)&freeze_own_facts,
                         (Py_ssize_t)sizeof freeze_own_facts);
}

static PyObject *
bytes_list(char **strings)
{
    PyObject *list = PyList_New(0);
    for (; list != NULL && *strings != NULL; strings++) {
        PyObject *bytes = PyBytes_FromString(*strings);
        if (bytes == NULL || PyList_Append(list, bytes) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(bytes);
    }
    return list;
}

static PyObject *
freeze(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    /* The interpreter's own way of settling down in a new process: locks, ids of threads, hooks. */
    PyOS_BeforeFork();
    const freeze_message *message = freeze_here();
    if (message == NULL) {
        PyOS_AfterFork_Parent();
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    /* It forgets signals that have come, and hooks print what is raised in them: an interrupt that a
       handler took on the way would be lost. */
    PyOS_AfterFork_Child();
    uint64_t ignored = freeze_install_signals();
    PyObject *argv = bytes_list(message->argv);
    PyObject *envp = argv == NULL ? NULL : bytes_list(message->envp);
    return Py_BuildValue("(NNKCyK)", argv, envp, (unsigned long long)ignored, (int)message->kind,
                         message->text, (unsigned long long)message->rest);
}

static int
set_string(wchar_t **member, PyObject *value)
{
    wchar_t *wide = NULL;
    if (value != Py_None && (wide = PyUnicode_AsWideCharString(value, NULL)) == NULL) {
        return -1;
    }
    int err = cpy_config_set(member, wide);
    PyMem_Free(wide);
    if (err < 0) {
        PyErr_NoMemory();
    }
    return err;
}

static int
set_argv(PyObject *argv)
{
    cpy_config_clear_argv();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(argv); i++) {
        wchar_t *wide = PyUnicode_AsWideCharString(PyList_GET_ITEM(argv, i), NULL);
        if (wide == NULL) {
            return -1;
        }
        PyStatus status = PyWideStringList_Append(&cpy_config()->argv, wide);
        PyMem_Free(wide);
        if (PyStatus_Exception(status)) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

static PyObject *
run_main(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *argv, *command, *name, *file;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyList_Type, &argv, &command, &name, &file)) {
        return NULL;
    }
    PyConfig *config = cpy_config();
    if (set_argv(argv) < 0 || set_string(&config->run_command, command) < 0
        || set_string(&config->run_module, name) < 0
        || set_string(&config->run_filename, file) < 0) {
        return NULL;
    }
    cpy_become_outermost();
    exit(Py_RunMain());
}

static PyObject *
begin_finalizing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    cpy_begin_finalizing();
    Py_RETURN_NONE;
}

PyMethodDef module_zygote_methods[] = {
    {"frozen_facts", frozen_facts, METH_NOARGS, NULL},
    {"freeze", freeze, METH_NOARGS, NULL},
    {"run_main", run_main, METH_VARARGS, NULL},
    {"begin_finalizing", begin_finalizing, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#endif
