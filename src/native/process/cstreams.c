/* fflush(NULL) waits for the lock of each stream, also of one that holds nothing to write: a thread
 * that reads stdin would keep the process from its end. exit() of glibc up to 2.36 locks none, that
 * of newer ones waits in the same way. So here each stream is locked by itself, if it is free. Of the
 * others only those that are being written to can hold anything: they are waited for, with a limit.
 *
 * The functions that list the streams are those by which glibc itself prepares a fork. They are in its
 * interface without being declared. Other libraries have none: there fflush(NULL) does it, as exit()
 * of musl waits for every lock, too.
 */
#define _GNU_SOURCE
#include "cstreams.h"

#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 10

extern FILE *_IO_iter_begin(void) __attribute__((weak));
extern FILE *_IO_iter_end(void) __attribute__((weak));
extern FILE *_IO_iter_next(FILE *) __attribute__((weak));
extern FILE *_IO_iter_file(FILE *) __attribute__((weak));
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

typedef struct {
    cstreams_locked found;
    int descriptor; /* of one that is being written to, -1 if it has none */
} look;

static void
flush_if_free(FILE *stream, look *at)
{
    if (ftrylockfile(stream) != 0) {
        at->found.any = true;
        if (__fwriting(stream)) {
            at->found.written_to++;
            at->descriptor = fileno_unlocked(stream);
        }
        return;
    }
    if (__fpending(stream)) { /* else the offset of a file that is read would change */
        (void)fflush_unlocked(stream);
    }
    funlockfile(stream);
}

static look
flush_free_ones(void)
{
    look all = {.descriptor = -1};
    _IO_list_lock();
    for (FILE *at = _IO_iter_begin(); at != _IO_iter_end(); at = _IO_iter_next(at)) {
        flush_if_free(_IO_iter_file(at), &all);
    }
    _IO_list_unlock();
    return all;
}

cstreams_locked
cstreams_flush(double lock_limit_s)
{
    if (_IO_iter_begin == NULL || _IO_iter_end == NULL || _IO_iter_next == NULL
        || _IO_iter_file == NULL || _IO_list_lock == NULL || _IO_list_unlock == NULL) {
        (void)fflush(NULL);
        return (cstreams_locked){0};
    }
    look last;
    while ((last = flush_free_ones()).found.written_to && lock_limit_s > 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_MS * 1000000L}, NULL);
        lock_limit_s -= LOOK_AGAIN_MS / 1e3;
    }
    if (last.found.written_to) {
        dprintf(
            STDERR_FILENO,
            "pasture: a thread keeps a stream of C (descriptor %d) locked at the exit: it was not "
            "flushed\n",
            last.descriptor);
    }
    return last.found;
}

/* not reached in this file: a C library without these names */
