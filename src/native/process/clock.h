/* Clocks, in nanoseconds. To be included after Python.h, which asks the system for POSIX. */
#ifndef PASTURE_CLOCK_H
#define PASTURE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t
clock_read_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Time that passes for everybody. Comparable across a fork. */
static inline uint64_t
clock_monotonic_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* Processor time of the process, all threads: a worker that waits for requests uses none. Starts
   again in the child of a fork. */
static inline uint64_t
clock_processor_ns(void)
{
    return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* The processor time of the calling thread. */
static inline uint64_t
clock_thread_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
