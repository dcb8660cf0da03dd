/* How a child ends: with the right exit status, its files flushed, and without finalization.
 *
 * Finalizing the interpreter would write to every object of the heap, shared ones too.
 */
#ifndef PASTURE_EXIT_H
#define PASTURE_EXIT_H

#include "../cpython/cpython.h"

/* End the process with `status` in so many seconds, whatever it is doing then: flushing can wait
   for ever for a lock that another thread holds. Takes SIGALRM, so it is to be called when nothing
   is left to do but flushing. Does nothing where there is no other thread. */
void exit_limit(int status, unsigned int seconds);

/* Undo exit_limit(): everything is flushed. SIGALRM, its timer and its place in the
   mask are again what they were. */
void exit_lift_limit(void);

/* Flush C's streams and end the process, without anything else that exit() or the interpreter
   would do. */
_Noreturn void exit_now(int status);

/* New list of all files that the collector knows, open or closed, frozen ones included; or NULL
   with an exception set. Writes to no object that is not a file. */
PyObject *exit_files(void);

/* Remember which files the frozen part of the heap holds, so that exit_files() need not walk through
   it. To be called after gc.freeze(), again after a further one. Writes to files, which get a weak
   reference, and to the ends of the frozen part. Precondition: no collection runs. Returns 0, or
   -1 with an exception set: nothing is remembered then. */
int exit_note_frozen_files(void);

/* Register `func` with atexit so that it runs last. Returns 0, or -1 with an exception. */
int exit_run_last(PyObject *func);

/* From now on remember the code of the SystemExit that ends the process: the only one that the
   interpreter itself reads. Returns 0, or -1 with an exception set. */
int exit_watch_system_exit(void);

/* New reference to that code, or NULL without an exception where none was read. */
PyObject *exit_system_exit_code(void);

#endif
