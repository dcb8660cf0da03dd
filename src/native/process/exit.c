/* Ends the process, and finds the open files that its end needs. */
#define _GNU_SOURCE
#include "exit.h"

#include "../gc/frozen.h"
#include "../seal/sealed.h"
#include "cstreams.h"

#include <unistd.h>

#ifndef CPY_UNSUPPORTED

#define EXIT_STREAM_LOST 120 /* CPython's, if the standard streams cannot be flushed */

void
exit_now(int status, double lock_limit_s)
{
    if (cstreams_flush(lock_limit_s).written_to) {
        status = status ? status : EXIT_STREAM_LOST;
    }
    _exit(status);
}

/* Where a buffered stream keeps the identity of the thread that holds its lock: known once
   exit_learn_stream_owner() has found it. */
static struct {
    size_t offset;
    PyTypeObject *types[2];
} owner;

static unsigned long
word_at(PyObject *op, size_t offset)
{
    unsigned long word;
    memcpy(&word, (const char *)op + offset, sizeof word);
    return word;
}

int
exit_learn_stream_owner(PyObject *locked)
{
    static const char *const names[] = {"BufferedWriter", "BufferedRandom"};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (owner.types[i] == NULL && (owner.types[i] = cpy_find_type("_io", names[i])) == NULL) {
            return -1;
        }
    }
    size_t found = 0;
    if (Py_IS_TYPE(locked, owner.types[0])) {
        size_t bytes = (size_t)Py_TYPE(locked)->tp_basicsize;
        for (size_t at = sizeof(PyObject); at + sizeof(unsigned long) <= bytes; at += sizeof at) {
            if (word_at(locked, at) == PyThread_get_thread_ident()) {
                owner.offset = at;
                found++;
            }
        }
    }
    if (found != 1) {
        owner.offset = 0;
    }
    return 0;
}

exit_stream_lock
exit_find_stream_lock(PyObject *stream)
{
    bool known = owner.offset != 0
                 && (PyObject_TypeCheck(stream, owner.types[0])
                     || PyObject_TypeCheck(stream, owner.types[1]));
    unsigned long holder = known ? word_at(stream, owner.offset) : 0;
    if (holder == 0 || holder == PyThread_get_thread_ident()) {
        return EXIT_STREAM_FREE;
    }
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        if (thread->thread_id == holder) {
            return EXIT_STREAM_HELD;
        }
    }
    return EXIT_STREAM_ABANDONED;
}

typedef struct {
    PyObject *found;    /* a list */
    PyTypeObject *base; /* of files */
    bool weakly;        /* append weak references */
    PyTypeObject
        *last; /* type that is_finalized_writer() looked at: objects of one come in a row */
    bool last_writes;
} file_search;

static PyTypeObject *file_base; /* _io._IOBase, or NULL */

/* Returns 0, or -1 with an exception set. */
static int
begin_search(file_search *search, PyObject *found, bool weakly)
{
    if (found == NULL
        || (file_base == NULL && (file_base = cpy_find_type("_io", "_IOBase")) == NULL)) {
        return -1;
    }
    *search = (file_search){.found = found, .base = file_base, .weakly = weakly};
    return 0;
}

/* Whether a class in Python with `__del__` writes what it holds when it is closed, as ZipFile does. */
static bool
is_finalized_writer(PyTypeObject *type)
{
    static const char *const writers[] = {"write", "writestr", "writeframes", "sync"};
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !cpy_type_has(type, "__del__")
        || !cpy_type_has(type, "close")) {
        return false;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(writers); i++) {
        if (cpy_type_has(type, writers[i])) {
            return true;
        }
    }
    return false;
}

static bool
is_wanted(file_search *search, PyObject *op)
{
    if (cpy_is_file(op, search->base)) {
        return true;
    }
    if (Py_TYPE(op)->tp_finalize == NULL) {
        return false;
    }
    if (Py_TYPE(op) != search->last) {
        search->last = Py_TYPE(op);
        search->last_writes = is_finalized_writer(search->last);
    }
    return search->last_writes;
}

static int
append_file(file_search *search, PyObject *op)
{
    PyObject *item = search->weakly ? PyWeakref_NewRef(op, NULL) : Py_NewRef(op);
    int err = item == NULL ? -1 : PyList_Append(search->found, item);
    Py_XDECREF(item);
    return err;
}

static int
append_if_file(PyObject *op, void *arg)
{
    return is_wanted(arg, op) ? append_file(arg, op) : 0;
}

/* The files that were there at the seal, so that the end of a process need not walk through the
   frozen part of the heap: weak references in the list at its end. What stays mortal is not frozen. */
static frozen_part frozen;

/* Append the files that are not frozen. They are found first: a weak reference is a new object, for
   which the interpreter may collect, and that moves what the walk goes along. */
static int
append_unfrozen(file_search *search)
{
    PyObject *files = exit_files(EXIT_UNFROZEN);
    int err = files == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; !err && i < PyList_GET_SIZE(files); i++) {
        err = append_file(search, PyList_GET_ITEM(files, i));
    }
    Py_XDECREF(files);
    return err;
}

int
exit_note_frozen_files(void)
{
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state()), *start = list;
#if CPY_HAS_IMMORTALITY
    start = sealed_end(); /* no file is sealed */
#endif
    file_search search;
    if (frozen_part_prepare(&frozen) < 0) {
        return -1;
    }
    (void)PyList_SetSlice(frozen.end, 0, PyList_GET_SIZE(frozen.end), NULL); /* takes no memory */
    if (begin_search(&search, frozen.end, true) < 0
        || cpy_gc_list_visit_behind(start, list, append_if_file, &search) < 0
        || append_unfrozen(&search) < 0) {
        return -1;
    }
    return frozen_part_note(&frozen);
}

/* Append the known files that are still there. Returns 0, or -1 with an exception set. */
static int
append_known(file_search *search)
{
    int err = 0;
    for (Py_ssize_t i = 0; !err && i < PyList_GET_SIZE(frozen.end); i++) {
        PyObject *item = PyList_GET_ITEM(frozen.end, i);
        /* after gc.unfreeze() the list can be had from gc.get_objects() */
        PyObject *file = PyWeakref_CheckRef(item) ? cpy_weakref_target(item) : NULL;
        err = file != NULL ? PyList_Append(search->found, file) : 0;
        Py_XDECREF(file);
    }
    return err;
}

PyObject *
exit_files(exit_which which)
{
    file_search search;
    PyObject *found = PyList_New(0);
    bool done = begin_search(&search, found, false) == 0;
    if (done && which != EXIT_UNFROZEN) {
        PyGC_Head *list = cpy_gc_permanent(cpy_gc_state()), *start = frozen_part_end(&frozen);
        done = (start == list || append_known(&search) == 0)
               && cpy_gc_list_visit_behind(start, list, append_if_file, &search) == 0;
    }
    if (done && which != EXIT_FROZEN) {
        done = cpy_gc_visit_unfrozen(append_if_file, &search) == 0;
    }
    if (!done) {
        Py_CLEAR(found);
    }
    return found;
}

void
exit_forget(void)
{
    memset(&owner, 0, sizeof owner);
    memset(&frozen, 0, sizeof frozen);
    file_base = NULL;
}

#endif
