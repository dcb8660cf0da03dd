/* Verifies threads and frames: those of a call that runs meanwhile, of known code. */
#include "debug_offsets.h"
#include "layout_rows.h"
#include "readable.h"

#ifndef CPY_UNSUPPORTED

typedef struct _PyInterpreterFrame frame;

#define FIELDS_BYTES (offsetof(frame, localsplus) + 4 * sizeof(void *))
#define TAGS ((uintptr_t)3) /* of a reference on the stack (3.14) */

/* The frame of the call, or NULL. */
static const frame *
current_frame(void)
{
    const frame *top = cpy_current_frame(PyThreadState_Get());
    return readable(top, FIELDS_BYTES) ? top : NULL;
}

static bool
frame_refers_to(size_t at, const void *expected)
{
    const frame *top = current_frame();
    return top != NULL && (layout_word(top, at) & ~TAGS) == (uintptr_t)expected;
}

/* Whether this is the frame of the call: its first variables are the arguments. */
static bool
is_of_call(const frame *top, const layout_samples *samples)
{
    const char *variables = (const char *)top + offsetof(frame, localsplus);
    return (layout_word(variables, 0) & ~TAGS) == (uintptr_t)samples->look
           && (layout_word(variables, 8) & ~TAGS) == (uintptr_t)samples->mark;
}

int
layout_current_frame(const layout_samples *samples, size_t at)
{
    const void *top = (const void *)layout_word(PyThreadState_Get(), at);
#if PY_VERSION_HEX < 0x030D0000
    top = readable(top, sizeof(_PyCFrame)) ? ((const _PyCFrame *)top)->current_frame : NULL;
#endif
    return readable(top, FIELDS_BYTES) && is_of_call(top, samples)
           && CPY_PUBLISHED(thread_state.current_frame, at);
}

int
layout_frame_code(const layout_samples *samples, size_t at)
{
    return frame_refers_to(at, layout_code_of(samples->call))
           && CPY_PUBLISHED(interpreter_frame.executable, at);
}

/* The call is made by the code of the samples, whose variables are its globals. */
int
layout_frame_previous(const layout_samples *samples, size_t at)
{
    const frame *top = current_frame();
    const frame *caller = top ? (const frame *)layout_word(top, at) : NULL;
    return readable(caller, FIELDS_BYTES)
           && layout_points_to(caller, offsetof(frame, f_locals), samples->globals)
           && CPY_PUBLISHED(interpreter_frame.previous, at);
}

/* The objects of the generator's own frame. */
static bool
generator_refers_to(const layout_samples *samples, size_t at, const void *expected)
{
    const char *own = (const char *)samples->generator + offsetof(PyGenObject, gi_iframe);
    return (layout_word(own, at) & ~TAGS) == (uintptr_t)expected;
}

/* Elsewhere in the frame of the call there may be what was on the stack. */
int
layout_frame_funcobj(const layout_samples *samples, size_t at)
{
    return frame_refers_to(at, samples->call) && generator_refers_to(samples, at, samples->later);
}

int
layout_frame_locals(const layout_samples *samples, size_t at)
{
    const frame *top = current_frame();
    return top != NULL && readable(top->previous, FIELDS_BYTES)
           && layout_points_to(top->previous, at, samples->globals) && layout_word(top, at) == 0;
}

int
layout_frame_object(const layout_samples *Py_UNUSED(samples), size_t at)
{
    PyFrameObject *object = PyThreadState_GetFrame(PyThreadState_Get()); /* makes one */
    bool right = object != NULL && frame_refers_to(at, object);
    Py_XDECREF(object);
    return PyErr_Occurred() ? -1 : right;
}

/* How much of the stack is in use, of a call that waits for one in Python: that of the samples has
   no variables, and one object on its stack. */
int
layout_frame_stack(const layout_samples *samples, size_t at)
{
    const frame *top = current_frame(), *caller = top ? top->previous : NULL;
    if (!readable(caller, FIELDS_BYTES)) {
        return 0;
    }
    const char *bottom = (const char *)caller + offsetof(frame, localsplus);
    bool is_key = (layout_word(bottom, 0) & ~TAGS) == (uintptr_t)samples->key;
#if PY_VERSION_HEX >= 0x030E0000
    return is_key && layout_points_to(caller, at, bottom + sizeof(void *));
#else
    int cells;
    memcpy(&cells, (const char *)caller + at, sizeof cells);
    return is_key && cells == 1;
#endif
}

/* A thread owns the frame of the call, and a generator its own. */
int
layout_frame_owner(const layout_samples *samples, size_t at)
{
    const frame *top = current_frame();
    const char *own = (const char *)samples->generator + offsetof(PyGenObject, gi_iframe);
    return top != NULL && ((const char *)top)[at] == FRAME_OWNED_BY_THREAD
           && own[at] == FRAME_OWNED_BY_GENERATOR && CPY_PUBLISHED(interpreter_frame.owner, at);
}

int
layout_frame_localsplus(const layout_samples *samples, size_t at)
{
    return frame_refers_to(at, samples->look) && frame_refers_to(at + 8, samples->mark)
           && generator_refers_to(samples, at, samples->mark)
           && CPY_PUBLISHED(interpreter_frame.localsplus, at);
}

int
layout_thread_dict(const layout_samples *Py_UNUSED(samples), size_t at)
{
    PyObject *dict = PyThreadState_GetDict(); /* makes one; borrowed */
    if (dict == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return layout_points_to(PyThreadState_Get(), at, dict);
}

int
layout_thread_context(const layout_samples *Py_UNUSED(samples), size_t at)
{
    PyObject *context = PyContext_New();
    if (context == NULL || PyContext_Enter(context) < 0) {
        Py_XDECREF(context);
        return -1;
    }
    bool right = layout_points_to(PyThreadState_Get(), at, context);
    int left = PyContext_Exit(context);
    Py_DECREF(context);
    return left < 0 ? -1 : right;
}

#endif

/* not reached in this file: each condition is an assertion about the interpreter, and holds in every build of it */
