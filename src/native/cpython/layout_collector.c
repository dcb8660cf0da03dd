/* Finds and verifies the collector's state. The newest container gives it away: it is the last of
 * the youngest generation, so that its successor is the head of that list.
 */
#include "debug_offsets.h"
#include "layout_rows.h"
#include "readable.h"

#ifndef CPY_UNSUPPORTED

#define MAX_OBJECTS ((Py_ssize_t)1 << 40)

/* The head of the youngest generation, or NULL where the newest object does not lead to one, or, with an
   exception set, where none could be made. */
static PyGC_Head *
find_young(void)
{
    PyObject *newest = PyCell_New(NULL);
    if (newest == NULL) {
        return NULL;
    }
    PyGC_Head *head = cpy_gc_head(newest), *young = cpy_gc_next(head);
    bool closed = readable(young, sizeof *young) && cpy_gc_prev(young) == head;
    Py_DECREF(newest);
    return closed ? young : NULL;
}

int
layout_find_collector(void)
{
    cpy_found.gc_state = offsetof(PyInterpreterState, gc);
#if PY_VERSION_HEX >= 0x030D0000
    if (cpy_debug_offsets() != NULL) {
        cpy_found.gc_state = cpy_debug_offsets()->interpreter_state.gc;
    }
#endif
    uintptr_t young = (uintptr_t)find_young(), state = (uintptr_t)cpy_gc_state();
    bool inside = young >= state && young < state + sizeof(struct _gc_runtime_state);
    cpy_found.generations =
        inside ? young - state : offsetof(struct _gc_runtime_state, generations);
    return PyErr_Occurred() ? -1 : 0;
}

static struct _gc_runtime_state *
state_at(size_t at)
{
    return (struct _gc_runtime_state *)((char *)PyInterpreterState_Get() + at);
}

int
layout_gc_head(const layout_samples *Py_UNUSED(samples), size_t at)
{
    PyObject *op = PyList_New(0);
    if (op == NULL) {
        return -1;
    }
    const char *head = (const char *)op - sizeof(PyGC_Head);
    uintptr_t next = layout_word(head, at);
    PyObject_GC_UnTrack(op);
    bool left = layout_word(head, at) == 0 && layout_word(head, sizeof(PyGC_Head) - 8) == 0;
    PyObject_GC_Track(op);
    bool joined = layout_word(head, at) == next && next % 4 == 0
                  && readable((void *)next, sizeof(PyGC_Head))
                  && cpy_gc_prev((PyGC_Head *)next) == (const PyGC_Head *)head;
    Py_DECREF(op);
    return left && joined;
}

int
layout_gc_state(const layout_samples *Py_UNUSED(samples), size_t at)
{
    PyGC_Head *young = find_young();
    size_t pointer = offsetof(struct _gc_runtime_state, generation0);
    return young != NULL && readable(state_at(at), sizeof(struct _gc_runtime_state))
           && layout_points_to(state_at(at), pointer, young)
           && CPY_PUBLISHED(interpreter_state.gc, at);
}

int
layout_generations(const layout_samples *Py_UNUSED(samples), size_t at)
{
    const char *lists = (const char *)cpy_gc_state() + at;
    if ((const PyGC_Head *)lists != find_young()) {
        return 0;
    }
    for (int i = 1; i < CPY_GENERATIONS; i++) {
        const PyGC_Head *head = (const PyGC_Head *)(lists + i * sizeof(struct gc_generation));
        if (!readable(cpy_gc_next(head), sizeof *head) || cpy_gc_prev(cpy_gc_next(head)) != head) {
            return 0;
        }
    }
    return 1;
}

/* They are next to the heads of the lists. */
int
layout_thresholds(const layout_samples *samples, size_t at)
{
    int thresholds[CPY_GENERATIONS], seen;
    PyObject *tuple = PyObject_CallMethod(samples->gc, "get_threshold", NULL);
    bool parsed = tuple != NULL
                  && PyArg_ParseTuple(tuple, "iii", &thresholds[0], &thresholds[1], &thresholds[2]);
    Py_XDECREF(tuple);
    if (!parsed) {
        return -1;
    }
    for (int i = 0; i < CPY_GENERATIONS; i++) {
        memcpy(&seen, (char *)cpy_gc_generation(cpy_gc_state(), i) + at, sizeof seen);
        if (seen != thresholds[i]) {
            return 0;
        }
    }
    return 1;
}

int
layout_permanent(const layout_samples *samples, size_t at)
{
    PyObject *count = PyObject_CallMethod(samples->gc, "get_freeze_count", NULL);
    if (count == NULL) {
        return -1;
    }
    bool is_empty = PyLong_AsSsize_t(count) == 0;
    Py_DECREF(count);
    PyGC_Head *head = (PyGC_Head *)((char *)cpy_gc_state() + at);
    PyGC_Head *next = cpy_gc_next(head), *previous = cpy_gc_prev(head);
    size_t pointer = at - offsetof(struct _gc_runtime_state, permanent_generation)
                     + offsetof(struct _gc_runtime_state, generation0);
    return readable(next, sizeof *next) && readable(previous, sizeof *previous)
           && cpy_gc_prev(next) == head && cpy_gc_next(previous) == head
           && (next == head) == is_empty && layout_points_to(cpy_gc_state(), pointer, find_young());
}

int
layout_callbacks(const layout_samples *samples, size_t at)
{
    PyObject *callbacks = PyObject_GetAttrString(samples->gc, "callbacks");
    Py_XDECREF(callbacks);
    return callbacks == NULL ? -1 : layout_points_to(cpy_gc_state(), at, callbacks);
}

int
layout_collecting(const layout_samples *samples, size_t at)
{
    PyObject *garbage = PyObject_GetAttrString(samples->gc, "garbage");
    Py_XDECREF(garbage);
    if (garbage == NULL) {
        return -1;
    }
    size_t behind = offsetof(struct _gc_runtime_state, garbage)
                    - offsetof(struct _gc_runtime_state, collecting);
    int value;
    memcpy(&value, (char *)cpy_gc_state() + at, sizeof value);
    return value == 0 && layout_points_to(cpy_gc_state(), at + behind, garbage)
           && CPY_PUBLISHED(gc.collecting, at);
}

/* Whether a count is as far from its known neighbour as the headers say. */
static int
is_count(const layout_samples *samples, size_t at, size_t headers)
{
    Py_ssize_t count = (Py_ssize_t)layout_word(cpy_gc_state(), at);
    if (count < 0 || count > MAX_OBJECTS) {
        return 0;
    }
#if PY_VERSION_HEX >= 0x030E0000
    (void)samples;
    size_t ahead = offsetof(struct _gc_runtime_state, generation0) - headers;
    return layout_points_to(cpy_gc_state(), at + ahead, find_young());
#else
    return layout_callbacks(samples,
                            at - (headers - offsetof(struct _gc_runtime_state, callbacks)));
#endif
}

int
layout_long_lived_total(const layout_samples *samples, size_t at)
{
    return is_count(samples, at, offsetof(struct _gc_runtime_state, long_lived_total));
}

int
layout_long_lived_pending(const layout_samples *samples, size_t at)
{
    return is_count(samples, at, offsetof(struct _gc_runtime_state, long_lived_pending));
}

#endif

/* not reached in this file: each condition is an assertion about the interpreter, and holds in every build of it */
