/* Ends the process, and finds the exit status and the open files that its end needs.
 *
 * The exit status of a process that ends by SystemExit is known to the interpreter alone, in a
 * local variable of Py_Exit, while atexit functions run. The interpreter reads `code` from the
 * exception when no Python frame is left. That read is observed here, through the descriptor of
 * SystemExit.code.
 */
#define _GNU_SOURCE
#include "exit.h"

#include "procstat.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#ifndef CPY_UNSUPPORTED

static PyObject *exit_code; /* strong, or NULL */

/* In the place of the getter of SystemExit.code: remembers what the interpreter reads, which it
   does when no Python frame is left. */
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

#if CPY_HAS_BARE_EXCEPTIONS
/* The interpreter then finds the code itself where the instance would be and reads no
   attribute. So sys.exit makes the instance here. It is replaced inside the function object,
   for those who have imported the name. */
static PyObject *
exit_with_instance(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs > 1) {
        return PyErr_Format(PyExc_TypeError, "exit expected at most 1 argument, got %zd", nargs);
    }
    PyObject *type, *value, *traceback;
    PyErr_SetObject(PyExc_SystemExit, nargs ? args[0] : Py_None);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

static void
raise_instances(void)
{
    PyObject *function = PySys_GetObject("exit"); /* borrowed */
    if (function != NULL && PyCFunction_CheckExact(function)
        && PyCFunction_GET_FLAGS(function) == METH_FASTCALL) {
        ((PyCFunctionObject *)function)->m_ml->ml_meth =
            (PyCFunction)(void (*)(void))exit_with_instance;
    }
}
#else
static void
raise_instances(void)
{
}
#endif

int
exit_watch_system_exit(void)
{
    raise_instances();
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
exit_system_exit_code(void)
{
    return Py_XNewRef(exit_code);
}

static volatile sig_atomic_t limited_status;
static struct sigaction handler_before;
static unsigned int alarm_before; /* seconds left of it */
static bool is_limited, was_blocked;

/* A signal handler: calls nothing but write() and _exit(). */
static void
on_limit(int Py_UNUSED(signal))
{
    static const char words[] = "pasture: a thread kept a stream locked at the end of the process: "
                                "it was not flushed\n";
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(limited_status);
}

void
exit_limit(int status, unsigned int seconds)
{
    if (procstat_read(PROCSTAT_THREADS) == 1) {
        return;
    }
    limited_status = status;
    struct sigaction action = {.sa_handler = on_limit};
    (void)sigaction(SIGALRM, &action, &handler_before);
    sigset_t only;
    (void)sigemptyset(&only);
    (void)sigaddset(&only, SIGALRM);
    sigset_t mask_before;
    was_blocked = pthread_sigmask(SIG_UNBLOCK, &only, &mask_before) == 0
                  && sigismember(&mask_before, SIGALRM) == 1;
    alarm_before = alarm(seconds);
    is_limited = true;
}

void
exit_lift_limit(void)
{
    if (is_limited) {
        is_limited = false;
        (void)alarm(0);
        if (was_blocked) {
            sigset_t only;
            (void)sigemptyset(&only);
            (void)sigaddset(&only, SIGALRM);
            (void)pthread_sigmask(SIG_BLOCK, &only, NULL);
        }
        (void)sigaction(SIGALRM, &handler_before, NULL);
        (void)alarm(alarm_before);
    }
}

void
exit_now(int status)
{
    fflush(NULL);
    _exit(status);
}

typedef struct {
    PyObject *found;      /* a list */
    destructor finalizer; /* of files */
    bool weakly;          /* append weak references */
} file_search;

/* Returns 0, or -1 with an exception set. */
static int
begin_search(file_search *search, PyObject *found, bool weakly)
{
    *search = (file_search){.found = found, .weakly = weakly};
    search->finalizer = found != NULL ? cpy_find_file_finalizer() : NULL;
    return search->finalizer == NULL ? -1 : 0;
}

static int
append_if_file(PyObject *op, void *arg)
{
    const file_search *search = arg;
    if (Py_TYPE(op)->tp_finalize != search->finalizer) {
        return 0;
    }
    PyObject *item = search->weakly ? PyWeakref_NewRef(op, NULL) : Py_NewRef(op);
    int err = item == NULL ? -1 : PyList_Append(search->found, item);
    Py_XDECREF(item);
    return err;
}

/* The files of the frozen part of the heap, so that the end of a process need not walk through it:
   weak references in `files`. This and `begin` are lists that nobody else knows, at the end and at
   the start of that part. The interpreter adds to the end of a collector's list alone, so what
   comes later stands behind. */
static struct {
    PyObject *begin, *files;
    bool known;
} frozen;

/* Make sure that a list of ours is there, and in one of the collector's lists: a collection takes
   immortal objects out. Returns 0, or -1 with an exception set. */
static int
ensure_list(PyObject **list)
{
    if (*list == NULL && (*list = PyList_New(0)) == NULL) {
        return -1;
    }
    if (!cpy_gc_listed(*list)) {
        PyObject_GC_Track(*list);
    }
    return 0;
}

int
exit_note_frozen_files(void)
{
    frozen.known = false;
    if (ensure_list(&frozen.begin) < 0 || ensure_list(&frozen.files) < 0
        || PyList_SetSlice(frozen.files, 0, PyList_GET_SIZE(frozen.files), NULL) < 0) {
        return -1;
    }
    file_search search;
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state());
    if (begin_search(&search, frozen.files, true) < 0
        || cpy_gc_list_visit(list, append_if_file, &search) < 0) {
        return -1;
    }
    cpy_gc_move_to_start(cpy_gc_head(frozen.begin), list);
    cpy_gc_move_to_end(cpy_gc_head(frozen.files), list);
    frozen.known = true;
    return 0;
}

/* Append the known files that are still there. Returns behind which node of the list of frozen
   objects others may stand, or NULL with an exception set. */
static PyGC_Head *
append_known(PyGC_Head *list, const file_search *search)
{
    if (!frozen.known || cpy_gc_next(list) != cpy_gc_head(frozen.begin)) {
        return list;
    }
    PyGC_Head *last = cpy_gc_head(frozen.files), *node = list;
    while ((node = cpy_gc_prev(node)) != last) {
        if (node == list) {
            return list;
        }
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(frozen.files); i++) {
        PyObject *item = PyList_GET_ITEM(frozen.files, i);
        /* after gc.unfreeze() the list can be had from gc.get_objects() */
        PyObject *file = PyWeakref_CheckRef(item) ? cpy_weakref_target(item) : NULL;
        int err = file != NULL ? PyList_Append(search->found, file) : 0;
        Py_XDECREF(file);
        if (err) {
            return NULL;
        }
    }
    return last;
}

PyObject *
exit_files(void)
{
    file_search search;
    PyObject *found = PyList_New(0);
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state()), *start;
    bool done = begin_search(&search, found, false) == 0
                && (start = append_known(list, &search)) != NULL
                && cpy_gc_list_visit_behind(start, list, append_if_file, &search) == 0
                && cpy_gc_visit_unfrozen(append_if_file, &search) == 0;
    if (!done) {
        Py_CLEAR(found);
    }
    return found;
}

int
exit_run_last(PyObject *func)
{
    PyObject *atexit = layout_require(LAYOUT_ATEXIT) < 0 ? NULL : PyImport_ImportModule("atexit");
    PyObject *registered = atexit ? PyObject_CallMethod(atexit, "register", "O", func) : NULL;
    if (registered != NULL && !cpy_atexit_is_last(func)) {
        Py_SETREF(registered, PyObject_CallMethod(atexit, "unregister", "O", func));
        if (registered != NULL) {
            PyErr_SetString(PyExc_NotImplementedError, "atexit keeps its functions in another way");
            Py_CLEAR(registered);
        }
    }
    Py_XDECREF(atexit);
    Py_XDECREF(registered);
    return registered == NULL ? -1 : cpy_atexit_last_to_bottom();
}

#endif
