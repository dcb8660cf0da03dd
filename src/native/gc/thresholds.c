/* The level is read from the thresholds themselves: if they are those of no level, somebody has
 * set others, which stay for as long as he leaves them. A library that saves the thresholds and
 * restores them around a collection of its own so restores a level, from which this goes on.
 */
#include "thresholds.h"

#include "../cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct {
    int middle, oldest; /* thresholds of generations 1 and 2 */
} thresholds_level;

/* From sooner to later. The last are CPython's own, 3.11 to 3.15. */
static const thresholds_level levels[] = {{3, 0}, {5, 1}, {10, 2}, {10, 5}, {10, 10}};

#define LAST_LEVEL ((int)(sizeof levels / sizeof *levels) - 1)
#define NO_LEVEL (-1)

/* Of the processor time since the last full collection, one may take so large a part ... */
#define DEAR_PART 20u
/* ... and is cheap enough to come sooner again below this one. */
#define CHEAP_PART 50u

static bool is_on;
static uint64_t began_ns, ended_ns;

/* Processor time of the process: a worker that waits for requests has not become slower. */
static uint64_t
processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The level that the thresholds are at, or NO_LEVEL. */
static int
find_level(void)
{
    const struct gc_generation *generations = cpy_gc_state()->generations;
    for (int i = 0; i <= LAST_LEVEL; i++) {
        if (generations[1].threshold == levels[i].middle
            && generations[2].threshold == levels[i].oldest) {
            return i;
        }
    }
    return NO_LEVEL;
}

static void
set(int number)
{
    struct gc_generation *generations = cpy_gc_state()->generations;
    generations[1].threshold = levels[number].middle;
    generations[2].threshold = levels[number].oldest;
}

bool
thresholds_start(void)
{
    is_on = find_level() == LAST_LEVEL;
    if (is_on) {
        set(0);
        began_ns = ended_ns = processor_ns();
    }
    return is_on;
}

void
thresholds_stop(void)
{
    if (is_on && find_level() != NO_LEVEL) {
        set(LAST_LEVEL);
    }
    is_on = false;
}

void
thresholds_before_collection(void)
{
    if (is_on) {
        began_ns = processor_ns();
    }
}

void
thresholds_after_collection(void)
{
    if (!is_on) {
        return;
    }
    int level = find_level();
    uint64_t now_ns = processor_ns();
    uint64_t spent_ns = now_ns - began_ns, between_ns = began_ns - ended_ns;
    if (level != NO_LEVEL && level < LAST_LEVEL && spent_ns * DEAR_PART > between_ns) {
        set(level + 1);
    }
    else if (level > 0 && spent_ns * CHEAP_PART < between_ns) {
        set(level - 1);
    }
    ended_ns = now_ns;
}

#endif
