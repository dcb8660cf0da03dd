/* When a full collection runs out of line: one that is asked for, or all of them.
 *
 * The built-in collector tells its callbacks when it starts and when it is done. Ours takes
 * the place of the list it reads and passes everything on to the functions in
 * gc.callbacks: that list stays the user's, and nothing in it can switch this off.
 */
#ifndef PASTURE_COLLECT_H
#define PASTURE_COLLECT_H

#include "hide.h"

/* Run a full collection out of line, as gc.collect() would; the built-in one if there is no
   memory for it, which leaves frozen objects out. New reference to what that returns, or NULL
   with an exception: RuntimeError if other interpreters exist. */
PyObject *collect_now(bool include_frozen);

/* Run every full collection out of line from now on, or no longer. Returns 0, or -1 with
   an exception set and nothing changed. Idempotent. */
int collect_watch(bool on);
bool collect_is_watching(void);

/* Whether a collection runs, in this thread or another: what it has found dead, and what it has
   hidden, stands in none of the collector's own lists meanwhile. */
bool collect_is_running(void);

/* From now on look at the counts of immortal objects when a collection starts, any one, if
   that is due (refcounts.h). Returns 0, or -1 with an exception set. */
int collect_mind_counts(void);

/* Give free memory back to the system after each full collection that is watched (trim.h). */
void collect_trim(bool on);

typedef struct {
    size_t collections; /* run out of line */
    size_t skipped;     /* left to the built-in one for want of memory */
    size_t declined;    /* left to the built-in one: there were other interpreters */
    hide_report last;
} collect_history;

const collect_history *collect_get_history(void);

#endif
