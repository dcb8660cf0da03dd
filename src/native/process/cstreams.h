/* The streams of C (FILE), written at the end of a process. */
#ifndef PASTURE_CSTREAMS_H
#define PASTURE_CSTREAMS_H

/* Write what they hold. Writing takes as long as it takes. For those that other threads keep locked
   in the middle of writing the wait is `lock_limit_s` seconds, all together. Returns how many of
   those were left out; `*descriptor` is that of one of them, -1 if it has none. */
int cstreams_flush(double lock_limit_s, int *descriptor);

#endif
