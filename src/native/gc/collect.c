/* When a collection runs out of line.
 *
 * The built-in collector calls the functions in a list at the start and at the end of each
 * collection. This file puts a list with one function of ours in the place of that list. Our
 * function does our part and then calls the functions in gc.callbacks, which stays the user's own:
 * clearing it switches nothing off.
 *
 * Owns: the exchange of the list, the switches (watching, asked, minding, trimming), the history.
 * Invariant: `user_callbacks` is set exactly while our list is in place.
 */
#include "collect.h"

#ifndef CPY_UNSUPPORTED

#include "refcounts.h"
#include "thresholds.h"
#include "trim.h"

static PyObject *hook;           /* the function in the list that the collector reads */
static PyObject *user_callbacks; /* gc.callbacks, while it does not read that */
static bool watching;            /* every full collection, not only one that is asked for */
static bool trimming;            /* give free memory back after each of them */
static bool minding;             /* counts of immortal objects, whatever is collected */
static bool asked;               /* collect_now() is running */
static bool asked_include_frozen;
static int depth; /* collections that have started and not ended */
static collect_history history;

/* Hide survivors, unless another interpreter may hold some of them. */
static void
begin(void)
{
    if (!cpy_is_only_interpreter()) {
        history.declined++;
        return;
    }
    hide_begin(asked && asked_include_frozen, &history.last);
    if (history.last.finished) {
        history.collections++;
    }
    else {
        history.skipped++;
    }
}

/* As the built-in collector calls them: the list may change while it is gone through. */
static void
call_user_callbacks(PyObject *const *args, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(user_callbacks); i++) {
        PyObject *callback = Py_NewRef(PyList_GET_ITEM(user_callbacks, i));
        PyObject *result = PyObject_Vectorcall(callback, args, (size_t)count, NULL);
        if (result == NULL) {
            cpy_report_gc_callback(callback);
        }
        Py_XDECREF(result);
        Py_DECREF(callback);
    }
}

/* `info`: the second argument of a callback, a dictionary. */
static bool
is_full_collection(PyObject *info)
{
    PyObject *generation = PyDict_Check(info) ? cpy_dict_get_ascii(info, "generation") : NULL;
    return generation != NULL /* not reached: each collector gives it */
           && PyLong_CheckExact(generation) && PyLong_AsLong(generation) == CPY_GENERATIONS - 1;
}

/* The built-in collector calls no function where it has no memory for the arguments. An end that went
   unnoticed is made up for as soon as it is certain that no collection runs. Where collections nest it never
   is: there none runs out of line any more. */
static void
end_unnoticed(void)
{
    if (CPY_COLLECTIONS_NEST) {
        return;
    }
    depth = 0;
    if (hide_is_active()) {
        hide_end();
    }
}

/* 3.12 begins a collection that was scheduled before in the middle of another one, in Python code
   that finalizes garbage. The garbage is then in lists of the outer one: such a collection
   is left to the built-in collector, which never looks beyond its own lists. */
static PyObject *
on_phase(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_Check(args[0])) { /* not reached: no other code finds it */
        PyErr_SetString(PyExc_TypeError, "called by the garbage collector alone");
        return NULL;
    }
    bool starts = PyUnicode_CompareWithASCIIString(args[0], "start") == 0;
    bool is_full = is_full_collection(args[1]);
    if (starts) {
        end_unnoticed();
    }
    depth = starts ? depth + 1 : Py_MAX(depth - 1, 0);
    bool is_outermost = depth == (starts ? 1 : 0);
    if (!starts && is_outermost && hide_is_active()) {
        hide_end();
    }
    if (starts && minding) {
        refcounts_restore_if_due();
    }
    if (starts && is_full) {
        thresholds_before_collection();
    }
    if (!starts && trimming && is_full) {
        (void)trim_pools();
        trim_chunks();
    }
    call_user_callbacks(args, count);
    if (starts && is_outermost && (watching || asked) && is_full) {
        assert(cpy_gc_state()->collecting && !hide_is_active());
        begin();
    }
    if (!starts && is_full) {
        thresholds_after_collection();
    }
    Py_RETURN_NONE;
}

static PyMethodDef hook_method = {
    "out_of_line_collector", (PyCFunction)(void (*)(void))on_phase, METH_FASTCALL,
    "Called by the garbage collector in place of gc.callbacks, which it calls in turn."};

/* Replace gc.callbacks by our list. Idempotent. Returns 0, or -1 with an exception set and
   nothing changed. */
static int
hook_in(void)
{
    if (user_callbacks != NULL) {
        return 0;
    }
    if (layout_require(LAYOUT_COLLECTOR) < 0 || hide_init() < 0) {
        return -1;
    }
    if (hook == NULL && (hook = PyCFunction_New(&hook_method, NULL)) == NULL) {
        return -1;
    }
    PyObject *list = PyList_New(1);
    if (list == NULL) {
        return -1;
    }
    PyList_SET_ITEM(list, 0, Py_NewRef(hook));
    struct _gc_runtime_state *gc = cpy_gc_state();
    user_callbacks = gc->callbacks;
    gc->callbacks = list;
    return 0;
}

/* Put gc.callbacks back, if nothing needs ours any more. A collection that goes through the list
   holds no reference to it: then ours stays, and does nothing. */
static void
hook_out(void)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    if (user_callbacks != NULL && !gc->collecting && !watching && !minding) {
        Py_SETREF(gc->callbacks, user_callbacks);
        user_callbacks = NULL;
    }
}

PyObject *
collect_now(bool include_frozen)
{
    if (collect_is_running()) {
        return PyLong_FromLong(0);
    }
    if (!cpy_is_only_interpreter()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "other interpreters exist in this process, with objects of their own");
        return NULL;
    }
    PyObject *builtin = cpy_run_due_collection() < 0 ? NULL : cpy_builtin_collect();
    if (builtin == NULL || hook_in() < 0) {
        Py_XDECREF(builtin);
        return NULL;
    }
    asked = true;
    asked_include_frozen = include_frozen;
    PyObject *result = PyObject_CallNoArgs(builtin);
    asked = false;
    Py_DECREF(builtin);
    hook_out();
    return result;
}

int
collect_watch(bool on)
{
    if (on && hook_in() < 0) {
        return -1;
    }
    watching = on;
    if (!on && !asked) {
        hook_out();
    }
    return 0;
}

bool
collect_is_running(void)
{
    /* 3.12 says that none does after one in the middle of another. */
    bool is_known = layout_has(LAYOUT_COLLECTOR);
    bool collecting = is_known && cpy_gc_state()->collecting;
    if (is_known && !collecting) {
        end_unnoticed();
    }
    return collecting || depth > 0;
}

int
collect_mind_counts(void)
{
    if (hook_in() < 0) {
        return -1;
    }
    minding = true;
    return 0;
}

void
collect_trim(bool on)
{
    trimming = on;
}

bool
collect_is_watching(void)
{
    return watching;
}

const collect_history *
collect_get_history(void)
{
    return &history;
}

void
collect_forget(void)
{
    hook = user_callbacks = NULL;
    watching = trimming = minding = asked = false;
    depth = 0;
    history = (collect_history){0};
    hide_forget();
    thresholds_forget();
}

#endif
