/* The last function of atexit: a process that shall not be finalized ends there, with the status that the
 * interpreter alone knows.
 *
 * The status is a local variable of the function that calls Py_FinalizeEx. So no status is found out: that
 * function is returned to in the place of Py_FinalizeEx, which has run the functions of atexit and
 * has finalized nothing, and goes on as it would: exit(), or the signal of an interrupt.
 */
#ifndef PASTURE_LEAVE_H
#define PASTURE_LEAVE_H

#include "../cpython/cpython.h"

/* The next step after the work of the end. pasture.sealing.exit.Ending has the same numbers. */
typedef enum {
    LEAVE_FINALIZE,      /* nothing: the interpreter finalizes */
    LEAVE_AGAIN,         /* the interpreter comes once more: its threads go on */
    LEAVE_WRITTEN,       /* leave */
    LEAVE_STREAM_LOST,   /* leave, as if a standard stream could not be flushed: 120 */
    LEAVE_FILE_GIVEN_UP, /* leave, with 120 in place of 0: a thread kept a file locked */
} leave_ending;

/* Register the last function of atexit. It calls `work(can_leave)`, which returns a tuple of a leave_ending
   and the seconds that locked streams of C may still be waited for. Nothing is registered if it is
   registered already, or while functions of atexit run, whose list would move under them. Returns 0, or -1
   with an exception set. */
int leave_arm(PyObject *work);

/* Say of a function of pasture that it calls Py_RunMain and exit() with its result. */
void leave_note_program(const void *function);

/* A process that leaves, a copy of this one, does not free blocks of malloc that lie there: they are
   shared, and it ends. Precondition: malloc is the C library's. */
void leave_keep_blocks(uintptr_t start, uintptr_t end);

/* NULL, or why children of this process will be finalized. */
const char *leave_obstacle(void);

#endif
