/* Thresholds go up and down a short ladder of levels, by what full collections cost.
 *
 * The present level is read from the thresholds themselves. If they are those of no level, other
 * code has set them, and they stay as long as that holds. A library that saves the thresholds and
 * restores them around a collection of its own thereby restores a level, from which this goes on.
 */
#include "thresholds.h"

#include "../cpython/cpython.h"
#include "../process/clock.h"

#ifndef CPY_UNSUPPORTED

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int middle, oldest; /* thresholds of generations 1 and 2 */
} thresholds_level;

/* From sooner to later. The last are CPython's own, 3.11 to 3.15. */
static const thresholds_level levels[] = {{3, 0}, {5, 1}, {10, 2}, {10, 5}, {10, 10}};

#define LAST_LEVEL ((int)(sizeof levels / sizeof *levels) - 1)
#define NO_LEVEL (-1)

/* A full collection that takes more than 1 / DEAR_PART of the processor time since the last
   one makes the next come later ... */
#define DEAR_PART 20u
/* ... and one that takes less than 1 / CHEAP_PART makes it come sooner. */
#define CHEAP_PART 50u

/* Between requests a full collection may take 1 / BETWEEN_PART of it. */
#define BETWEEN_PART 32u

/* So few new objects are not worth one. */
#define NEW_LEAST_OBJECTS 100

/* So large an oldest generation was not left over from a freeze. */
#define OLD_MAX_OBJECTS ((size_t)20000)

static bool is_on;
static uint64_t began_ns, ended_ns;
static uint64_t last_ns; /* that the last full collection took */

/* The level that the thresholds are at, or NO_LEVEL. */
static int
find_level(void)
{
    const struct gc_generation *generations = cpy_gc_generations(cpy_gc_state());
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
    struct gc_generation *generations = cpy_gc_generations(cpy_gc_state());
    generations[1].threshold = levels[number].middle;
    generations[2].threshold = levels[number].oldest;
}

void
thresholds_forget(void)
{
    is_on = false;
    began_ns = ended_ns = last_ns = 0;
}

bool
thresholds_start(void)
{
    is_on = find_level() == LAST_LEVEL;
    if (is_on) {
        set(0);
        began_ns = ended_ns = clock_processor_ns();
        last_ns = 0;
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
        began_ns = clock_processor_ns();
    }
}

void
thresholds_after_collection(void)
{
    if (!is_on) {
        return;
    }
    int level = find_level();
    uint64_t now_ns = clock_processor_ns();
    uint64_t spent_ns = now_ns - began_ns, between_ns = began_ns - ended_ns;
    if (level != NO_LEVEL && level < LAST_LEVEL && spent_ns * DEAR_PART > between_ns) {
        set(level + 1);
    }
    else if (level > 0 && spent_ns * CHEAP_PART < between_ns) {
        set(level - 1);
    }
    ended_ns = now_ns;
    last_ns = spent_ns;
}

bool
thresholds_collection_pays(void)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    const struct gc_generation *generations = cpy_gc_generations(gc);
    bool has_new = generations[0].count > NEW_LEAST_OBJECTS || generations[1].count > 0
                   || generations[2].count > 0;
    return is_on && gc->enabled && !gc->collecting && has_new && find_level() != NO_LEVEL
           && cpy_is_only_interpreter()
           && last_ns * BETWEEN_PART <= clock_processor_ns() - ended_ns;
}

bool
thresholds_forget_frozen(void)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    if (!layout_has(LAYOUT_COLLECTOR)) {
        return false;
    }
    size_t old = cpy_gc_count_up_to(cpy_gc_generation(gc, CPY_GENERATIONS - 1), OLD_MAX_OBJECTS);
    size_t wanted = old + CPY_GC_FROZEN_AT_START_OBJECTS;
    if (old == OLD_MAX_OBJECTS || cpy_gc_count_up_to(cpy_gc_permanent(gc), wanted) < wanted) {
        return false;
    }
    gc->long_lived_total = (Py_ssize_t)old;
    gc->long_lived_pending = 0;
    return true;
}

#endif
