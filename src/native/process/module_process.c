/* Python's way to what belongs to the process: its threads, its end, and its parent. */
#include "../module.h"

#ifndef CPY_UNSUPPORTED

#include "../cpython/forks.h"
#include "../cpython/layout.h"
#include "../cpython/main.h"

#include "exit.h"
#include "huge_arenas.h"
#include "leave.h"
#include "mappings.h"
#include "os_page.h"
#include "prctl.h"
#include "scratch.h"
#include "signals.h"
#include "streams.h"

#include <errno.h>
#include <sys/mman.h>

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
use_huge_arenas(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    huge_arenas_use();
    Py_RETURN_NONE;
}

static PyObject *
arm_exit(PyObject *Py_UNUSED(module), PyObject *work)
{
    if (!PyCallable_Check(work)) {
        PyErr_SetString(PyExc_TypeError, "the function must be callable");
        return NULL;
    }
    return leave_arm(work) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
files(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *frozen = Py_None;
    if (!PyArg_ParseTuple(args, "|O:files", &frozen)) {
        return NULL;
    }
    if (frozen == Py_None) {
        return exit_files(EXIT_ALL);
    }
    int truth = PyObject_IsTrue(frozen);
    return truth < 0 ? NULL : exit_files(truth ? EXIT_FROZEN : EXIT_UNFROZEN);
}

static PyObject *
before_forks(PyObject *Py_UNUSED(module), PyObject *known)
{
    if (!PyCallable_Check(known)) {
        PyErr_SetString(PyExc_TypeError, "the function must be callable");
        return NULL;
    }
    PyObject *calls = cpy_before_forks(known);
    return PyLong_FromSsize_t(calls != NULL ? PyList_GET_SIZE(calls) : 0);
}

static PyObject *
run_before_fork(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *known;
    Py_ssize_t begin;
    if (!PyArg_ParseTuple(args, "On:run_before_fork", &known, &begin)) {
        return NULL;
    }
    PyObject *calls = begin > 0 ? cpy_before_forks(known) : NULL;
    if (calls != NULL) {
        PyObject *later = PyList_GetSlice(calls, begin, PyList_GET_SIZE(calls));
        if (later == NULL) {
            return NULL;
        }
        cpy_run_before_fork(later);
        Py_DECREF(later);
    }
    Py_RETURN_NONE;
}

static PyObject *
finalize(PyObject *Py_UNUSED(module), PyObject *op)
{
    PyObject_CallFinalizer(op);
    Py_RETURN_NONE;
}

/* Source: CPython 3.11 to 3.15 Python/pylifecycle.c, flush_std_files. */
static PyObject *
report_unflushed(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *stream, *error;
    if (!PyArg_ParseTuple(args, "OO!:report_unflushed", &stream, PyExc_BaseException, &error)) {
        return NULL;
    }
    /* It would report the calls that lead to here, of which finalization has none. */
    bool hides = layout_has(LAYOUT_ROOTS);
    struct _PyInterpreterFrame *hidden = hides ? cpy_hide_frames() : NULL;
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), Py_NewRef(error), PyException_GetTraceback(error));
#if PY_VERSION_HEX >= 0x030E0000
    PyErr_FormatUnraisable("Exception ignored while flushing sys.stdout");
#elif PY_VERSION_HEX >= 0x030D0000
    PyErr_FormatUnraisable("Exception ignored on flushing sys.stdout");
#else
    PyErr_WriteUnraisable(stream);
#endif
    if (hides) {
        cpy_show_frames(hidden);
    }
    Py_RETURN_NONE;
}

static PyObject *
learn_stream_owner(PyObject *Py_UNUSED(module), PyObject *locked)
{
    if (exit_learn_stream_owner(locked) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
stream_lock(PyObject *Py_UNUSED(module), PyObject *stream)
{
    return PyLong_FromLong(exit_find_stream_lock(stream));
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
exit_process(PyObject *Py_UNUSED(module), PyObject *args)
{
    long status;
    double lock_limit_s;
    if (!PyArg_ParseTuple(args, "ld:exit_process", &status, &lock_limit_s)) {
        return NULL;
    }
    exit_now((int)(status & 0xff), lock_limit_s);
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
adopt_orphans(PyObject *Py_UNUSED(module), PyObject *args)
{
    int on = 1, before = 0;
    if (!PyArg_ParseTuple(args, "|p", &on)) {
        return NULL;
    }
    int err = prctl_adopt_orphans(on, &before);
    if (err) {
        return none_or_os_error(err);
    }
    return PyBool_FromLong(before);
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

static PyObject *
dumpable(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(prctl_dumpable());
}

static PyObject *
signal_action(PyObject *Py_UNUSED(module), PyObject *number)
{
    struct sigaction action;
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int err = signals_get((int)value, &action);
    return err ? none_or_os_error(err)
               : PyBytes_FromStringAndSize((const char *)&action, sizeof action);
}

static PyObject *
set_signal_action(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct sigaction action;
    const char *bytes;
    Py_ssize_t length;
    int number;
    if (!PyArg_ParseTuple(args, "iy#:set_signal_action", &number, &bytes, &length)) {
        return NULL;
    }
    if (length != (Py_ssize_t)sizeof action) {
        PyErr_SetString(PyExc_ValueError, "not what signal_action() returned");
        return NULL;
    }
    memcpy(&action, bytes, sizeof action);
    return none_or_os_error(signals_set(number, &action));
}

static PyObject *
reset_signal_after_first(PyObject *Py_UNUSED(module), PyObject *number)
{
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return none_or_os_error(signals_reset_after_first((int)value));
}

static PyObject *
address_in_words(const streams_address *address)
{
    return PyUnicode_DecodeFSDefaultAndSize(address->text, (Py_ssize_t)address->length);
}

static PyObject *
describe_stream(PyObject *Py_UNUSED(module), PyObject *number)
{
    streams_facts facts;
    int value = (int)PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int err = streams_describe(value, &facts);
    if (err) {
        return none_or_os_error(err);
    }
    return Py_BuildValue("iiNNNNLLNN", facts.family, facts.kind,
                         PyBool_FromLong(facts.is_listening), PyBool_FromLong(facts.is_connecting),
                         PyBool_FromLong(facts.is_connected), PyBool_FromLong(facts.is_at_end),
                         facts.acked, facts.received, address_in_words(&facts.own),
                         address_in_words(&facts.peer));
}

static PyObject *
keep_spare_end(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return none_or_os_error(streams_keep_spare());
}

#define FEW_STREAMS 128 /* without memory of their own: there may be none left */

/* Returns 0, or -1 with an exception set. */
static int
read_noted(PyObject *pairs, PyObject *numbers, streams_noted *noted, int *epolls)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs); i++) {
        unsigned long long inode;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pairs, i), "iK", &noted[i].number, &inode)) {
            return -1;
        }
        noted[i].inode = (ino_t)inode;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        epolls[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(numbers, i));
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
isolate_streams(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *pairs, *numbers, *done = NULL;
    if (!PyArg_ParseTuple(args, "O!O!:isolate_streams", &PyTuple_Type, &pairs, &PyTuple_Type,
                          &numbers)) {
        return NULL;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(pairs), epoll_count = (size_t)PyTuple_GET_SIZE(numbers);
    streams_noted few_streams[FEW_STREAMS], *noted = few_streams;
    int few_epolls[FEW_STREAMS], *epolls = few_epolls;
    if (count > FEW_STREAMS || epoll_count > FEW_STREAMS) {
        noted = PyMem_Calloc(count + 1, sizeof *noted);
        epolls = PyMem_Calloc(epoll_count + 1, sizeof *epolls);
    }
    if (noted == NULL || epolls == NULL) {
        (void)PyErr_NoMemory();
    }
    else if (read_noted(pairs, numbers, noted, epolls) == 0) {
        done = none_or_os_error(streams_isolate(noted, count, epolls, epoll_count));
    }
    if (noted != few_streams) {
        PyMem_Free(noted);
        PyMem_Free(epolls);
    }
    return done;
}

static PyObject *
write_mapping(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long start, at;
    Py_ssize_t bytes;
    int file;
    if (!PyArg_ParseTuple(args, "KniK:write_mapping", &start, &bytes, &file, &at)) {
        return NULL;
    }
    return none_or_os_error(
        mappings_write((const char *)(uintptr_t)start, (size_t)bytes, file, (off_t)at));
}

static PyObject *
replace_mapping(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long start, at;
    Py_ssize_t bytes;
    int file, is_writable;
    if (!PyArg_ParseTuple(args, "KniKp:replace_mapping", &start, &bytes, &file, &at,
                          &is_writable)) {
        return NULL;
    }
    return none_or_os_error(mappings_replace((char *)(uintptr_t)start, (size_t)bytes,
                                             PROT_READ | (is_writable ? PROT_WRITE : 0), file,
                                             (off_t)at));
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
    {"use_huge_arenas", use_huge_arenas, METH_NOARGS, NULL},
    {"arm_exit", arm_exit, METH_O, NULL},
    {"files", files, METH_VARARGS, NULL},
    {"before_forks", before_forks, METH_O, NULL},
    {"run_before_fork", run_before_fork, METH_VARARGS, NULL},
    {"finalize", finalize, METH_O, NULL},
    {"report_unflushed", report_unflushed, METH_VARARGS, NULL},
    {"learn_stream_owner", learn_stream_owner, METH_O, NULL},
    {"stream_lock", stream_lock, METH_O, NULL},
    {"note_frozen_files", note_frozen_files, METH_NOARGS, NULL},
    {"exit_process", exit_process, METH_VARARGS, NULL},
    {"adopt_orphans", adopt_orphans, METH_VARARGS, NULL},
    {"die_with_parent", die_with_parent, METH_O, NULL},
    {"dumpable", dumpable, METH_NOARGS, NULL},
    {"signal_action", signal_action, METH_O, NULL},
    {"set_signal_action", set_signal_action, METH_VARARGS, NULL},
    {"reset_signal_after_first", reset_signal_after_first, METH_O, NULL},
    {"describe_stream", describe_stream, METH_O, NULL},
    {"keep_spare_end", keep_spare_end, METH_NOARGS, NULL},
    {"isolate_streams", isolate_streams, METH_VARARGS, NULL},
    {"write_mapping", write_mapping, METH_VARARGS, NULL},
    {"replace_mapping", replace_mapping, METH_VARARGS, NULL},
#ifdef PASTURE_CHECK
    {"fail_scratch_after", fail_scratch_after, METH_O, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

#endif
