/* What a child needs to end without finalization and with the right exit status. */
#ifndef PASTURE_EXIT_H
#define PASTURE_EXIT_H

#include "../cpython/cpython.h"

/* End the process with `status` when that time is over, whatever it is doing then: flushing
   can wait for ever for a lock that another thread holds. Does nothing where there is no other
   thread. To be called when nothing is left to do but flushing: takes SIGALRM. */
void exit_limit(int status, unsigned int seconds);

/* What was to be flushed is flushed: SIGALRM is again what it was. */
void exit_lift_limit(void);

/* Flush C's streams, as the end of a process does, and end it without anything else. */
_Noreturn void exit_now(int status);

/* New list of the open or closed files that the collector knows, frozen ones included, or
   NULL with an exception set. Looking for them writes to no other object. */
PyObject *exit_files(void);

/* Register `func` with atexit so that it runs last. Returns 0, or -1 with an exception. */
int exit_run_last(PyObject *func);

/* From now on remember the code of a SystemExit that the interpreter itself reads, which
   it does once: when that exception ends the process. Returns 0, or -1 with an exception. */
int exit_watch_system_exit(void);

/* New reference to that code, or NULL without an exception where none was read. */
PyObject *exit_system_exit_code(void);

#endif
