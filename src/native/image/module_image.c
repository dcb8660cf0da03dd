/* Python's way to a process that stops to be copied, and to the interpreter's own main program. */
#define _GNU_SOURCE
#include "../module.h"

#ifndef CPY_UNSUPPORTED

#include "freeze.h"
#include "variables.h"

#include "../cpython/audit.h"
#include "../cpython/main.h"
#include "../process/leave.h"
#include "../process/procstat.h"
#include "../seal/malloc_allocator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PyObject *
frozen_facts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("(Kn)", (unsigned long long)(uintptr_t)&freeze_own_facts,
                         (Py_ssize_t)sizeof freeze_own_facts);
}

static int
append_bytes(PyObject *list, const char *text, size_t length)
{
    PyObject *bytes = PyBytes_FromStringAndSize(text, (Py_ssize_t)length);
    int err = bytes == NULL ? -1 : PyList_Append(list, bytes);
    Py_XDECREF(bytes);
    return err;
}

static PyObject *
bytes_list(char **strings)
{
    PyObject *list = PyList_New(0);
    for (; list != NULL && *strings != NULL; strings++) {
        if (append_bytes(list, *strings, strlen(*strings)) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
freeze(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    /* The interpreter's own way of settling down in a new process: locks, ids of threads, hooks. */
    (void)fflush(NULL); /* what code in C has not written yet, no copy shall write again */
    if (glibc_is_malloc()) {
        leave_keep_blocks(procstat_read(PROCSTAT_HEAP_START), (uintptr_t)sbrk(0));
    }
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

/* Replace a list of the interpreter's by the texts of another. The old one may be sealed: it is
   left. `allocate` is what the interpreter frees it for. */
static int
set_texts(PyWideStringList *list, PyObject *texts, void *(*allocate)(size_t))
{
    Py_ssize_t length = PyList_GET_SIZE(texts);
    wchar_t **items = allocate((size_t)(length + 1) * sizeof *items);
    for (Py_ssize_t i = 0; items != NULL && i < length; i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        Py_ssize_t characters = PyUnicode_AsWideChar(text, NULL, 0);
        if (characters < 0) {
            return -1;
        }
        items[i] = allocate((size_t)characters * sizeof **items);
        if (items[i] == NULL) {
            items = NULL;
        }
        else {
            (void)PyUnicode_AsWideChar(text, items[i], characters); /* which it has counted */
        }
    }
    if (items == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    items[length] = NULL;
    *list = (PyWideStringList){length, items};
    return 0;
}

static PyWideStringList *arguments; /* of Py_GetArgcArgv() */

static PyObject *
find_arguments(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    arguments = cpy_arguments();
    return PyBool_FromLong(arguments != NULL);
}

__attribute__((noinline)) static PyObject *
run_main(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *argv, *all, *command, *name, *file;
    int needs_folder;
    if (!PyArg_ParseTuple(args, "O!O!pOOO", &PyList_Type, &argv, &PyList_Type, &all, &needs_folder,
                          &command, &name, &file)) {
        return NULL;
    }
    PyConfig *config = cpy_config();
    config->safe_path |= !needs_folder;
    if (set_texts(&config->argv, argv, PyMem_RawMalloc) < 0
        || set_texts(&config->orig_argv, all, PyMem_RawMalloc) < 0
        || (arguments != NULL && set_texts(arguments, all, malloc) < 0)
        || set_string(&config->run_command, command) < 0
        || set_string(&config->run_module, name) < 0
        || set_string(&config->run_filename, file) < 0) {
        return NULL;
    }
    cpy_become_outermost();
    leave_note_program((const void *)run_main);
    exit(Py_RunMain());
}

static PyObject *
set_utf8_mode(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *flags, *errors;
    Py_ssize_t index;
    int is_utf8;
    if (!PyArg_ParseTuple(args, "OnpU", &flags, &index, &is_utf8, &errors)) {
        return NULL;
    }
    if (PyUnicode_GET_LENGTH(errors) && set_string(&cpy_config()->stdio_errors, errors) < 0) {
        return NULL;
    }
    cpy_set_utf8_mode(flags, index, is_utf8);
    Py_RETURN_NONE;
}

static PyObject *
begin_finalizing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    cpy_begin_finalizing();
    Py_RETURN_NONE;
}

static PyObject *
open_variables(PyObject *Py_UNUSED(module), PyObject *file)
{
    int number = (int)PyLong_AsLong(file);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int err = variables_open(number);
    if (err) {
        errno = err;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyBool_FromLong(!variables_are_missed());
}

/* A name, or NULL with an exception set. */
static const char *
variable_name(PyObject *name, size_t *length)
{
    if (!PyBytes_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a name is bytes");
        return NULL;
    }
    *length = (size_t)PyBytes_GET_SIZE(name);
    return PyBytes_AS_STRING(name);
}

static PyObject *
find_variable(PyObject *Py_UNUSED(module), PyObject *name)
{
    size_t length;
    const char *text = variable_name(name, &length);
    if (text == NULL) {
        return NULL;
    }
    const char *value = variables_find(text, length);
    if (value == NULL) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromString(value);
}

static PyObject *
hide_variable(PyObject *Py_UNUSED(module), PyObject *name)
{
    size_t length;
    const char *text = variable_name(name, &length);
    if (text == NULL) {
        return NULL;
    }
    variables_hide(text, length);
    Py_RETURN_NONE;
}

static PyObject *
variable_names(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *names = PyList_New(0);
    const char *pair = NULL;
    while (names != NULL && (pair = variables_next(pair)) != NULL) {
        if (append_bytes(names, pair, strcspn(pair, "=")) < 0) {
            Py_CLEAR(names);
        }
    }
    return names;
}

static PyObject *
close_variables(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int err = variables_close();
    if (err) {
        errno = err;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    size_t bytes;
    const char *asked;
    bool are_all = variables_asked(&asked, &bytes);
    PyObject *names = PyList_New(0);
    for (size_t at = 0; names != NULL && at < bytes; at += strlen(asked + at) + 1) {
        if (append_bytes(names, asked + at, strlen(asked + at)) < 0) {
            Py_CLEAR(names);
        }
    }
    return names != NULL ? Py_BuildValue("(NO)", names, are_all ? Py_True : Py_False) : NULL;
}

static PyObject *
add_audit_hook(PyObject *Py_UNUSED(module), PyObject *hook)
{
    int added = cpy_add_audit_hook(hook);
    return added < 0 ? NULL : PyBool_FromLong(added);
}

static PyObject *
drop_audit_hook(PyObject *Py_UNUSED(module), PyObject *hook)
{
    if (cpy_drop_audit_hook(hook) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef module_image_methods[] = {
    {"frozen_facts", frozen_facts, METH_NOARGS, NULL},
    {"freeze", freeze, METH_NOARGS, NULL},
    {"find_arguments", find_arguments, METH_NOARGS, NULL},
    {"run_main", run_main, METH_VARARGS, NULL},
    {"set_utf8_mode", set_utf8_mode, METH_VARARGS, NULL},
    {"begin_finalizing", begin_finalizing, METH_NOARGS, NULL},
    {"open_variables", open_variables, METH_O, NULL},
    {"find_variable", find_variable, METH_O, NULL},
    {"hide_variable", hide_variable, METH_O, NULL},
    {"variable_names", variable_names, METH_NOARGS, NULL},
    {"close_variables", close_variables, METH_NOARGS, NULL},
    {"add_audit_hook", add_audit_hook, METH_O, NULL},
    {"drop_audit_hook", drop_audit_hook, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

#endif
