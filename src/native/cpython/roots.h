/* Where references from outside the heap start: modules, threads, and what running frames hold.
 *
 * The list of roots is far from complete: C code holds objects that cannot be found. Each root
 * that is given is certain.
 */
#ifndef PASTURE_CPYTHON_ROOTS_H
#define PASTURE_CPYTHON_ROOTS_H

#include "layout.h"
#include "pycore.h"

/* The code that a frame runs. */
static inline PyCodeObject *
cpy_frame_code(struct _PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    return (PyCodeObject *)(frame->f_executable.bits & ~(uintptr_t)3);
#elif PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* Call `visit` with what a running frame holds: every call of a thread has one. */
static inline void
cpy_frame_visit(struct _PyInterpreterFrame *frame, visitproc visit, void *arg)
{
#define CPY_VISIT_ONE(op) \
    do { \
        if ((op) != NULL) { \
            (void)visit((PyObject *)(op), arg); \
        } \
    } while (0)
#if PY_VERSION_HEX >= 0x030E0000
/* A reference on the stack is a pointer with flags in its two lowest bits; bit 1 says
   that it is none. */
#  define CPY_REFERENT(ref) ((ref).bits & 2 ? NULL : (PyObject *)((ref).bits & ~(uintptr_t)3))
    PyCodeObject *code = cpy_frame_code(frame);
    Py_ssize_t cells = frame->stackpointer != NULL ? frame->stackpointer - frame->localsplus
                                                   : code->co_nlocalsplus;
    CPY_VISIT_ONE(CPY_REFERENT(frame->f_funcobj));
#else
/* The depth of the stack is known of a frame that has called another one. */
#  define CPY_REFERENT(ref) (ref)
    PyCodeObject *code = cpy_frame_code(frame);
    Py_ssize_t cells = Py_MAX(frame->stacktop, code->co_nlocalsplus);
#  if PY_VERSION_HEX >= 0x030C0000
    CPY_VISIT_ONE(frame->f_funcobj);
#  else
    CPY_VISIT_ONE(frame->f_func);
#  endif
#endif
    CPY_VISIT_ONE(frame->f_locals);
    CPY_VISIT_ONE(frame->frame_obj);
    for (Py_ssize_t i = 0; i < cells; i++) {
        CPY_VISIT_ONE(CPY_REFERENT(frame->localsplus[i]));
    }
#undef CPY_REFERENT
}

/* Where a thread has the frame that it runs. */
static inline struct _PyInterpreterFrame **
cpy_frame_place(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030D0000
    return &thread->current_frame;
#else
    return &thread->cframe->current_frame;
#endif
}

static inline struct _PyInterpreterFrame *
cpy_current_frame(PyThreadState *thread)
{
    return *cpy_frame_place(thread);
}

static inline void
cpy_thread_visit(PyThreadState *thread, visitproc visit, void *arg)
{
    if (!layout_has(LAYOUT_ROOTS)) {
        return;
    }
    struct _PyInterpreterFrame *frame = cpy_current_frame(thread);
    for (; frame != NULL; frame = frame->previous) {
        /* Others mark where C code was entered and hold nothing. */
        if (frame->owner <= FRAME_OWNED_BY_FRAME_OBJECT) {
            cpy_frame_visit(frame, visit, arg);
        }
    }
    CPY_VISIT_ONE(thread->dict);
    CPY_VISIT_ONE(thread->context);
}

/* Call `visit` with the code of each call that goes on now, in any thread. No list of the
   collector leads to it where its function has got another code meanwhile, or is gone. Stops
   at the first result that is not 0 and returns that. */
static inline int
cpy_running_code_visit(visitproc visit, void *arg)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        struct _PyInterpreterFrame *frame = cpy_current_frame(thread);
        for (; frame != NULL; frame = frame->previous) {
            if (frame->owner <= FRAME_OWNED_BY_FRAME_OBJECT) {
                Py_VISIT(cpy_frame_code(frame));
            }
        }
    }
    return 0;
}

/* Call `visit` with objects that the interpreter holds from outside of every object:
   `modules`, which is sys.modules, and what its threads work with. Far from complete; each is
   certain. */
static inline void
cpy_roots_visit(PyObject *modules, visitproc visit, void *arg)
{
    CPY_VISIT_ONE(modules);
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        cpy_thread_visit(thread, visit, arg);
    }
#undef CPY_VISIT_ONE
}

/* Objects may be shared with another interpreter, whose roots are not known here. */
static inline bool
cpy_is_only_interpreter(void)
{
    return PyInterpreterState_Next(PyInterpreterState_Head()) == NULL;
}

#endif
