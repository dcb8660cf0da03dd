/* The collector's lists, as the built-in collector keeps them.
 *
 * A list is circular and doubly linked through the PyGC_Head before each object; its
 * head is itself a PyGC_Head that belongs to no object. There are four: three generations,
 * and the permanent generation for frozen objects.
 */
#ifndef PASTURE_CPYTHON_GC_H
#define PASTURE_CPYTHON_GC_H

#include "layout.h"
#include "pycore.h"

#define CPY_GENERATIONS NUM_GENERATIONS
static_assert(NUM_GENERATIONS == 3, "the collector has three generations");
static_assert(sizeof(PyGC_Head) == 16, "the GC head is two words");

/* Whether one can begin in the middle of another. */
#define CPY_COLLECTIONS_NEST (PY_VERSION_HEX >> 16 == 0x030C)

static inline struct _gc_runtime_state *
cpy_gc_state(void)
{
    /* Not PyInterpreterState_GET(): it is inline over a thread-local that extension
       modules cannot see. */
    return (struct _gc_runtime_state *)((char *)PyInterpreterState_Get() + cpy_found.gc_state);
}

/* The array of generations. Builds of one version differ in where it is. */
static inline struct gc_generation *
cpy_gc_generations(struct _gc_runtime_state *gc)
{
    return (struct gc_generation *)((char *)gc + cpy_found.generations);
}

static inline PyGC_Head *
cpy_gc_generation(struct _gc_runtime_state *gc, int i)
{
    return &cpy_gc_generations(gc)[i].head;
}

static inline PyGC_Head *
cpy_gc_permanent(struct _gc_runtime_state *gc)
{
    return &gc->permanent_generation.head;
}

/* Any of the four lists: a generation, or from -1 on the permanent one. */
static inline PyGC_Head *
cpy_gc_list(struct _gc_runtime_state *gc, int i)
{
    return i < 0 ? cpy_gc_permanent(gc) : cpy_gc_generation(gc, i);
}

static inline PyGC_Head *
cpy_gc_next(const PyGC_Head *head)
{
    return (PyGC_Head *)head->_gc_next;
}

static inline PyGC_Head *
cpy_gc_prev(const PyGC_Head *head)
{
    return (PyGC_Head *)(head->_gc_prev & _PyGC_PREV_MASK);
}

static inline PyObject *
cpy_gc_object(PyGC_Head *head)
{
    return (PyObject *)(head + 1);
}

static inline PyGC_Head *
cpy_gc_head(PyObject *op)
{
    return (PyGC_Head *)op - 1;
}

/* Whether `op` is in one of the lists. */
static inline bool
cpy_gc_listed(PyObject *op)
{
    return PyObject_IS_GC(op) && cpy_gc_head(op)->_gc_next != 0;
}

/* Make `list` an empty list. */
static inline void
cpy_gc_list_init(PyGC_Head *list)
{
    list->_gc_next = list->_gc_prev = (uintptr_t)list;
}

/* Make `second` follow `first`. Keeps the flags in the low bits of the link back. */
static inline void
cpy_gc_link(PyGC_Head *first, PyGC_Head *second)
{
    _PyGCHead_SET_NEXT(first, second);
    _PyGCHead_SET_PREV(second, first);
}

/* Move everything in `from` to the end of `to`. Writes the ends of both lists only. */
static inline void
cpy_gc_splice(PyGC_Head *from, PyGC_Head *to)
{
    if (cpy_gc_next(from) != from) {
        PyGC_Head *first = cpy_gc_next(from), *last = cpy_gc_prev(from);
        cpy_gc_link(cpy_gc_prev(to), first);
        cpy_gc_link(last, to);
        cpy_gc_list_init(from);
    }
}

/* Move one object from its list, whichever that is, to the start of `to`. Writes the
   object and its neighbours. */
static inline void
cpy_gc_move_to_start(PyGC_Head *node, PyGC_Head *to)
{
    cpy_gc_link(cpy_gc_prev(node), cpy_gc_next(node));
    cpy_gc_link(node, cpy_gc_next(to));
    cpy_gc_link(to, node);
}

/* The same, to before `place`, an object of a list; or the list itself: to its end. */
static inline void
cpy_gc_move_before(PyGC_Head *node, PyGC_Head *place)
{
    cpy_gc_link(cpy_gc_prev(node), cpy_gc_next(node));
    cpy_gc_link(cpy_gc_prev(place), node);
    cpy_gc_link(node, place);
}

/* Call `visit` with each object behind `node` in a list, in order. Stops at its first result that is
   not 0 and returns that. What `visit` does must leave the object in its list. */
static inline int
cpy_gc_list_visit_behind(PyGC_Head *node, PyGC_Head *list, visitproc visit, void *arg)
{
    for (PyGC_Head *gc = cpy_gc_next(node); gc != list; gc = cpy_gc_next(gc)) {
        __builtin_prefetch(cpy_gc_next(gc));
        Py_VISIT(cpy_gc_object(gc));
    }
    return 0;
}

/* The same with all of a list. */
static inline int
cpy_gc_list_visit(PyGC_Head *list, visitproc visit, void *arg)
{
    return cpy_gc_list_visit_behind(list, list, visit, arg);
}

/* The same with all listed objects, from the youngest generation on, but the frozen ones. */
static inline int
cpy_gc_visit_unfrozen(visitproc visit, void *arg)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    int result = 0;
    for (int i = 0; i < CPY_GENERATIONS && !result; i++) {
        result = cpy_gc_list_visit(cpy_gc_generation(gc, i), visit, arg);
    }
    return result;
}

/* The same with all listed objects: frozen ones first. */
static inline int
cpy_gc_visit_all(visitproc visit, void *arg)
{
    int result = cpy_gc_list_visit(cpy_gc_permanent(cpy_gc_state()), visit, arg);
    return result ? result : cpy_gc_visit_unfrozen(visit, arg);
}

/* Call `forwards` with the first half of the objects behind `node` in a list, in order, and `backwards`
   with the other half, from the last one on. They alternate, so that each waits for memory while the other
   does: half the time where neighbours in the list are none in memory. Both may move the object into
   another list. Stops at the first result that is not 0 and returns that. */
static inline int
cpy_gc_list_visit_from_both_ends(PyGC_Head *node, PyGC_Head *list, visitproc forwards,
                                 visitproc backwards, void *arg)
{
    PyGC_Head *first = cpy_gc_next(node), *last = cpy_gc_prev(list);
    int result = 0;
    for (bool is_last = first == list; !is_last && !result;) {
        PyGC_Head *after = cpy_gc_next(first), *before = cpy_gc_prev(last);
        __builtin_prefetch(after);
        __builtin_prefetch(before);
        is_last = first == last || after == last;
        result = forwards(cpy_gc_object(first), arg);
        if (!result && first != last) {
            result = backwards(cpy_gc_object(last), arg);
        }
        first = after;
        last = before;
    }
    return result;
}

/* Number of objects in a list, or `limit` if there are as many or more. */
static inline size_t
cpy_gc_count_up_to(PyGC_Head *list, size_t limit)
{
    size_t count = 0;
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list && count < limit; gc = cpy_gc_next(gc)) {
        count++;
    }
    return count;
}

/* The most objects that are frozen by the interpreter itself, which 3.12 and 3.13 do. */
#define CPY_GC_FROZEN_AT_START_OBJECTS 1000u

/* Same as PyObject_IS_GC(), without the call. */
static inline bool
cpy_is_container(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC)
           && (type->tp_is_gc == NULL || type->tp_is_gc(op));
}

/* Whether an object that is no container now may be in a list: its type has containers
   and changes its mind, as greenlets do while they run. Static types never are in one. */
static inline bool
cpy_may_hide_in_list(PyObject *op)
{
    return PyType_HasFeature(Py_TYPE(op), Py_TPFLAGS_HAVE_GC) && !PyType_Check(op);
}

/* Have a collection that the interpreter was asked for run now, not in the midst of another one: in
   a finalizer 3.12 would begin it, look at its own garbage as if it were alive, and crash. Returns
   0, or -1 with the exception of a signal's handler, which is called here, too. */
static inline int
cpy_run_due_collection(void)
{
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    return PyErr_CheckSignals();
#else
    return 0;
#endif
}

/* New reference to the built-in gc.collect, whatever the module's attribute is by now. */
static inline PyObject *
cpy_builtin_collect(void)
{
    PyObject *module = PyImport_ImportModule("gc");
    PyModuleDef *def = module != NULL ? PyModule_GetDef(module) : NULL;
    PyObject *function = NULL;
    for (PyMethodDef *method = def ? def->m_methods : NULL; method && method->ml_name; method++) {
        if (strcmp(method->ml_name, "collect") == 0) {
            function = PyCFunction_New(method, module);
        }
    }
    if (function == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "the gc module is not CPython's");
    }
    Py_XDECREF(module);
    return function;
}

/* An exception from a function that `gc.callbacks` holds: it is set, and gets reported. */
static inline void
cpy_report_gc_callback(PyObject *callback)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyErr_FormatUnraisable("Exception ignored while calling GC callback %R", callback);
#else
    PyErr_WriteUnraisable(callback);
#endif
}

#endif
