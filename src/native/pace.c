/* Invariant: the thresholds are those of a level. If they are not, somebody has set others since,
 * which stay, and this has ended.
 */
#include "pace.h"

#include "cpython.h"

#ifndef CPY_UNSUPPORTED

#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct {
    int middle, oldest; /* thresholds of generations 1 and 2 */
} pace_level;

/* From sooner to later. The last are CPython's own, 3.11 to 3.15. */
static const pace_level levels[] = {{3, 0}, {5, 1}, {10, 2}, {10, 5}, {10, 10}};

#define LAST_LEVEL ((int)(sizeof levels / sizeof *levels) - 1)
#define OFF (-1)

/* Of the processor time since the last full collection, one may take so large a part ... */
#define DEAR_PART 20u
/* ... and is cheap enough to come sooner again below this one. */
#define CHEAP_PART 50u

static int level = OFF;
static uint64_t began_ns, ended_ns;

/* Processor time of the process: a worker that waits for requests has not become slower. */
static uint64_t
processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool
is_at(int number)
{
    const struct gc_generation *generations = cpy_gc_state()->generations;
    return generations[1].threshold == levels[number].middle
           && generations[2].threshold == levels[number].oldest;
}

static void
set(int number)
{
    struct gc_generation *generations = cpy_gc_state()->generations;
    generations[1].threshold = levels[number].middle;
    generations[2].threshold = levels[number].oldest;
    level = number;
}

bool
pace_start(void)
{
    if (!is_at(LAST_LEVEL)) {
        level = OFF;
        return false;
    }
    set(0);
    began_ns = ended_ns = processor_ns();
    return true;
}

void
pace_stop(void)
{
    if (level != OFF && is_at(level)) {
        set(LAST_LEVEL);
    }
    level = OFF;
}

void
pace_begin(void)
{
    if (level != OFF) {
        began_ns = processor_ns();
    }
}

void
pace_end(void)
{
    if (level == OFF) {
        return;
    }
    if (!is_at(level)) {
        level = OFF;
        return;
    }
    uint64_t now_ns = processor_ns();
    uint64_t spent_ns = now_ns - began_ns, between_ns = began_ns - ended_ns;
    if (spent_ns * DEAR_PART > between_ns && level < LAST_LEVEL) {
        set(level + 1);
    }
    else if (spent_ns * CHEAP_PART < between_ns && level > 0) {
        set(level - 1);
    }
    ended_ns = now_ns;
}

#endif
