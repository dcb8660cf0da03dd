/* The streams of C (FILE), written at the end of a process. */
#ifndef PASTURE_CSTREAMS_H
#define PASTURE_CSTREAMS_H

#include <stdbool.h>

/* Streams that another thread keeps locked. */
typedef struct {
    int written_to; /* in the middle of writing: what they hold was left out, and stderr says so */
    bool any;
} cstreams_locked;

/* Write what they hold. Writing takes as long as it takes. For those that other threads keep locked
   in the middle of writing the wait is `lock_limit_s` seconds, all together. */
cstreams_locked cstreams_flush(double lock_limit_s);

#endif
