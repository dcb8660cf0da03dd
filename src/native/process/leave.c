/* State: what was found out about the interpreter's code when the function was registered. The function owns
 * its work, and atexit owns the function: nothing here belongs to one interpreter.
 *
 * Invariant: a frame is returned from only if it was found to be the finalizing function's, if the function of
 * atexit was called by C, and if the process ends then: the caller is Py_Exit, or Py_RunMain of the
 * interpreter's own program, or C's exit() has been called. In any other case the interpreter finalizes.
 */
#define _GNU_SOURCE
#include "leave.h"

#ifndef CPY_UNSUPPORTED

#include "cstreams.h"
#include "detour.h"
#include "procstat.h"
#include "unwind.h"

#include <malloc.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FRAMES_MAX 400 /* exit() may be called deep in C code */
#define STATUS_STREAM_LOST 120
#define FROM_PROGRAM_MAX 2 /* calls from Py_RunMain to the function of the program, which counts */

/* Bytes of blocks that are not kept, while free() does nothing. */
#define OTHERS_MAX_BYTES ((size_t)16 << 20)

/* A thread that waits for the GIL looks each 5 ms whether the interpreter finalizes. */
#define THREADS_END_MS 15

extern int on_exit(void (*handler)(int, void *), void *arg) __attribute__((weak)); /* not musl's */

static struct {
    cpy_finalizing finalizing;
    const void *by_hand; /* atexit._run_exitfuncs, or NULL */
    const void *program; /* of pasture, or NULL */
} code;

static struct {
    bool file_given_up;
    double lock_limit_s;
} at_exit;

/* --- Who runs the functions of atexit ------------------------------------------------------------- */

typedef struct {
    enum { SEARCHING, BY_HAND, BELOW_FINALIZING, FINALIZES } state;
    unwind_place caller; /* of the finalizing function */
    bool ends_process;
    int may_be_program; /* number of frames that may still be the program's, which calls Py_RunMain */
    int frames;
} round_search;

/* The finalizing function is known by where its code begins, or, if that part of it is elsewhere, by
   what its caller has called. */
static void
look_for_round(round_search *search, const unwind_frame *frame)
{
    if (cpy_is_finalizing_code(&code.finalizing, unwind_called_by(frame))) {
        search->state = BELOW_FINALIZING;
    }
    if (search->state == BELOW_FINALIZING) {
        search->caller = frame->place;
        search->ends_process = cpy_ends_process(frame->function);
        search->may_be_program = cpy_returns_status(frame->function) ? FROM_PROGRAM_MAX : 0;
        search->state = FINALIZES;
    }
    else if (cpy_is_finalizing_code(&code.finalizing, frame->function)) {
        search->state = BELOW_FINALIZING;
    }
    else if (code.by_hand != NULL && frame->function == code.by_hand) {
        search->state = BY_HAND;
    }
}

static void
look_for_end_of_process(round_search *search, const void *function)
{
    bool is_program = cpy_is_program(function) || (function != NULL && function == code.program);
    if (search->may_be_program > 0 && is_program) {
        search->ends_process = true;
    }
    search->may_be_program--;
    if (UNWIND_RESTORES_ALL && function == (const void *)exit) {
        search->ends_process = true;
    }
}

static bool
look_at_frame(const unwind_frame *frame, void *arg)
{
    round_search *search = arg;
    if (search->state != FINALIZES) {
        look_for_round(search, frame);
    }
    else {
        look_for_end_of_process(search, frame->function);
    }
    bool is_done = search->state == BY_HAND || (search->state == FINALIZES && search->ends_process);
    return !is_done && ++search->frames < FRAMES_MAX;
}

static round_search
search_round(void)
{
    round_search search = {.state = SEARCHING};
    if (unwind_load() == NULL) {
        unwind_walk(look_at_frame, &search);
    }
    return search;
}

static bool
is_called_by_c(void)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    Py_XDECREF(frame);
    return frame == NULL;
}

/* --- The end --------------------------------------------------------------------------------------- */

/* Streams of C that another thread keeps locked: newer libraries wait for each of them in exit(), for ever.
   And a file that was given up is a failure. Otherwise all goes on as after a finalization. */
static void
before_c_exit(int status, void *Py_UNUSED(arg))
{
    cstreams_locked locked = cstreams_flush(at_exit.lock_limit_s);
    bool is_lost = locked.written_to > 0 || at_exit.file_given_up;
    if (locked.any || (is_lost && status == 0)) {
        _exit(status == 0 && is_lost ? STATUS_STREAM_LOST : status);
    }
}

static int
register_again(void *arg)
{
    if (leave_arm(arg) < 0) {
        PyErr_Clear(); /* then the interpreter finalizes */
    }
    Py_DECREF((PyObject *)arg);
    return 0;
}

/* Functions of atexit are forgotten when all have run. What is pending runs after that. Returns 0, or -1
   with the exception of another pending call. */
static int
come_again(PyObject *work)
{
    if (Py_AddPendingCall(register_again, Py_NewRef(work)) == 0) {
        return 0;
    }
    int err = Py_MakePendingCalls(); /* there is room again */
    (void)Py_AddPendingCall(register_again, work);
    return err;
}

/* Returns a leave_ending, or -1 with an exception set. */
static int
do_work(PyObject *work, bool can_leave)
{
    int ending = -1;
    if (can_leave) { /* what the program has set hears none of it */
        PyEval_SetTrace(NULL, NULL);
        PyEval_SetProfile(NULL, NULL);
    }
    PyObject *result = PyObject_CallOneArg(work, can_leave ? Py_True : Py_False);
    if (result != NULL
        && !PyArg_ParseTuple(result, "id;what is to be done", &ending, &at_exit.lock_limit_s)) {
        ending = -1;
    }
    Py_XDECREF(result);
    return ending;
}

/* The following code frees locks that threads of C code take on their way into the interpreter. */
static void
let_threads_end(void)
{
    if (procstat_read(PROCSTAT_THREADS) > 1) {
        (void)nanosleep(&(struct timespec){.tv_nsec = THREADS_END_MS * 1000000L}, NULL);
    }
}

/* --- Memory that is left as it is ---------------------------------------------------------------------- */

static struct {
    uintptr_t start, end;
    uint8_t *free; /* its code, which no program has to look for */
    detour freeing;
    size_t others_bytes;
} kept;

void
leave_keep_blocks(uintptr_t start, uintptr_t end)
{
    kept.start = start;
    kept.end = end;
    kept.free = detour_find("free");
}

/* In the place of free(). Where other blocks become more than a few, free() is put back. */
static void
free_nothing(void *block)
{
    uintptr_t at = (uintptr_t)block;
    if (block == NULL || at - kept.start < kept.end - kept.start) {
        return;
    }
    kept.others_bytes += malloc_usable_size(block);
    if (kept.others_bytes > OTHERS_MAX_BYTES) {
        kept.others_bytes = 0;
        if (procstat_read(PROCSTAT_THREADS) == 1 && detour_end(&kept.freeing) == 0) {
            free(block);
        }
    }
}

/* Destructors of libraries, which exit() calls, would write to blocks all over a heap that is shared. */
static void
keep_blocks(void)
{
    if (kept.free != NULL && procstat_read(PROCSTAT_THREADS) == 1) {
        (void)detour_begin(&kept.freeing, kept.free, (const void *)free_nothing);
    }
}

_Noreturn static void
return_from_finalizing(const round_search *search, int ending)
{
    at_exit.file_given_up = ending == LEAVE_FILE_GIVEN_UP;
    if (on_exit != NULL) { /* not reached: musl has none */
        (void)on_exit(before_c_exit, NULL);
    }
    cpy_seem_finalized();
    let_threads_end();
    keep_blocks();
    unwind_return_to(&search->caller, ending == LEAVE_STREAM_LOST ? -1 : 0);
}

static PyObject *
leave(PyObject *work, PyObject *Py_UNUSED(none))
{
    round_search search = search_round();
    if (search.state == BY_HAND) {
        return come_again(work) < 0 ? NULL : Py_NewRef(Py_None);
    }
    bool can_leave = search.state == FINALIZES && search.ends_process && is_called_by_c()
                     && cpy_is_only_interpreter();
    int ending = do_work(work, can_leave);
    if (ending < 0) {
        return NULL;
    }
    if (ending == LEAVE_AGAIN && come_again(work) < 0) { /* not reached: CPython 3.15 */
        return NULL;
    }
    if (can_leave && ending >= LEAVE_WRITTEN) {
        return_from_finalizing(&search, ending);
    }
    Py_RETURN_NONE;
}

static PyMethodDef leave_method = {"leave", leave, METH_NOARGS, NULL};

/* --- Registration ----------------------------------------------------------------------------------- */

/* It walks the stack, so that children find the pages of the unwinder and of its tables in memory, and share
   them. */
static void
learn_code(PyObject *atexit)
{
    PyObject *by_hand = PyObject_GetAttrString(atexit, "_run_exitfuncs");
    if (by_hand != NULL && PyCFunction_CheckExact(by_hand)) {
        PyCFunction function = PyCFunction_GET_FUNCTION(by_hand);
        memcpy(&code.by_hand, &function, sizeof function);
    }
    PyErr_Clear();
    Py_XDECREF(by_hand);
    if (unwind_load() == NULL) {
        code.finalizing = cpy_find_finalizing(unwind_first_jump);
    }
}

/* Returns 0, or -1 with an exception set. */
static int
register_at_bottom(PyObject *atexit, PyObject *function)
{
    PyObject *registered = PyObject_CallMethod(atexit, "register", "O", function);
    if (registered != NULL && !cpy_atexit_is_last(function)) {
        Py_SETREF(registered, PyObject_CallMethod(atexit, "unregister", "O", function));
        Py_CLEAR(registered); /* or it has failed, which says the same */
        PyErr_SetString(PyExc_NotImplementedError, "atexit keeps its functions in another way");
    }
    Py_XDECREF(registered);
    return registered == NULL ? -1 : cpy_atexit_last_to_bottom();
}

int
leave_arm(PyObject *work)
{
    PyObject *atexit = layout_require(LAYOUT_ATEXIT) < 0 ? NULL : PyImport_ImportModule("atexit");
    if (atexit == NULL) {
        return -1;
    }
    int err = 0;
    learn_code(atexit);
    if (search_round().state == SEARCHING && !cpy_atexit_has(&leave_method)) {
        PyObject *function = PyCFunction_New(&leave_method, work);
        err = function != NULL ? register_at_bottom(atexit, function) : -1;
        Py_XDECREF(function);
    }
    Py_DECREF(atexit);
    return err;
}

void
leave_note_program(const void *function)
{
    code.program = function;
}

const char *
leave_obstacle(void)
{
    return unwind_load();
}

#endif
