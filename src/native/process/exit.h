/* The last work of a process: its files are found, and streams of C flushed. */
#ifndef PASTURE_EXIT_H
#define PASTURE_EXIT_H

#include "../cpython/cpython.h"

/* Flush C's streams and end the process, without anything else that exit() or the interpreter
   would do. For streams that other threads keep locked in the middle of writing the wait is
   `lock_limit_s` seconds, all together. If one was left out, stderr says so, and 120 is in place of a
   status of 0. */
_Noreturn void exit_now(int status, double lock_limit_s);

typedef enum { EXIT_ALL, EXIT_FROZEN, EXIT_UNFROZEN } exit_which;

/* New list of the files that the collector knows, open or closed: of all (one may be there twice), of
   those that were there at the seal, or of those that are not frozen; or NULL with an exception set. A file is what derives from io.IOBase, or an
   object that its `__del__` closes and that something can be written to, as a ZipFile. Writes to no
   object that is not a file. */
PyObject *exit_files(exit_which which);

/* Learn from a BufferedWriter where it keeps who holds its lock. To be called while this thread does:
   when the stream below is asked to write. Without it no lock is ever found to be held. Returns 0, or
   -1 with an exception set. */
int exit_learn_stream_owner(PyObject *locked);

typedef enum {
    EXIT_STREAM_FREE,      /* or this thread's, or no buffered stream that is written to */
    EXIT_STREAM_HELD,      /* by another thread */
    EXIT_STREAM_ABANDONED, /* by a thread of the parent at the time of the fork: for ever */
} exit_stream_lock;

/* Who holds the lock of a stream, as far as the interpreter's lock shows: a thread that has just got
   it may still wait for that. */
exit_stream_lock exit_find_stream_lock(PyObject *stream);

/* Remember which files there are, frozen or not, so that exit_files() need not walk through the frozen
   part of the heap. To be called after gc.freeze(), again after a further one. Writes to files, which get a weak
   reference, and to the ends of the frozen part. Precondition: no collection runs. Returns 0, or
   -1 with an exception set: nothing is remembered then. */
int exit_note_frozen_files(void);

/* Forget the files and types of an interpreter that has ended. */
void exit_forget(void);

#endif
