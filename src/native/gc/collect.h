/* The out-of-line collector: full collections that write to no object that survives them.
 *
 * CPython's collector writes into the header of every object that it examines, and so un-shares
 * every page of the heap. Here garbage is found with bitmaps outside the heap instead. Then all
 * survivors are hidden, and CPython's collector runs: it meets garbage and little else. Weak
 * references, finalizers, resurrection, gc.garbage and statistics stay its own work.
 *
 * One collection, in order. "start" and "stop" are the callbacks of the built-in collector:
 *
 *   start   hide_begin()   1. mark.c: mark what the known roots reach
 *                          2. unreachable.c: find what is not marked, and which of it is dead
 *                          3. hide.c: take the survivors out of the generations
 *           the built-in collection
 *   stop    hide_end()     4. put the survivors into the oldest generation
 *
 * Which object is on which list:
 *
 *   until 3      where it always does: in one of three generations, or on the permanent list if it
 *                is frozen. Steps 1 and 2 change no list.
 *   after 3      Garbage: in its own generation and in its old order, so that finalizers run in the
 *                order they would. Survivors: on a list of ours, `hidden`, which no code of CPython
 *                looks at. Frozen objects: on the permanent list; where they are examined too,
 *                frozen garbage goes to the oldest generation.
 *                A small generation 0 is left as it is (YOUNG_MAX_OBJECTS in hide.c).
 *   meanwhile    New objects enter generation 0. An object on `hidden` that dies unlinks itself, as
 *                from any list.
 *   after 4      `hidden` is empty; survivors are in the oldest generation, before what the
 *                built-in collection left there.
 *
 * What the bits of an object mean (mark_bits.h):
 *
 *   after step   marked                             noted
 *   1            reached from a known root          the object before it in its list is marked
 *   2, found     reached; heads of lists too        not reached: it may be garbage
 *   2, judged    alive                              not reached from a known root
 *
 *   From there on an object that is noted and not marked is garbage. `waiting` belongs to the walk
 *   (mark.c) and is empty whenever it ends. Step 1 is left out where most of the heap is frozen and
 *   not examined: then all that is examined counts as not reached.
 *
 * What is written: in steps 1 and 2 nothing but bitmaps and scratch memory, not even a reference
 * count. In steps 3 and 4 the list links of garbage, of its neighbours, and at the ends of lists.
 *
 * Who may run: from the start of step 1 to the end of step 3, no other code. Between 3 and 4
 * any Python code, by way of finalizers and callbacks, and so other threads:
 *   - a fork in another thread: its child puts the survivors back at once (hide.c);
 *   - a collection inside the collection, on 3.12: left to the built-in collector (collect.c);
 *   - gc.get_objects() and gc.freeze() do not see the survivors.
 *
 * The search need not be trusted. The built-in collector decides by itself, from reference counts,
 * which of the objects that it meets may die. A wrong judgement here keeps garbage or costs time.
 * Where memory for the search cannot be had, nothing is hidden and the built-in collector does all
 * the work.
 */
#ifndef PASTURE_COLLECT_H
#define PASTURE_COLLECT_H

#include "hide.h"

/* Run a full collection out of line, where gc.collect() would run the built-in one. If there is no
   memory for it, the built-in one runs, which never examines frozen objects. Returns a new
   reference to what gc.collect() returned, or NULL with an exception: RuntimeError if other
   interpreters exist. While a collection runs it returns 0 and does nothing. */
PyObject *collect_now(bool include_frozen);

/* Run every full collection out of line from now on, or no longer. Returns 0, or -1 with
   an exception set and nothing changed. Idempotent. */
int collect_watch(bool on);

/* Whether every full collection runs out of line. */
bool collect_is_watching(void);

/* Whether a collection runs, in this thread or another. Meanwhile neither the garbage it has found
   nor the survivors it has hidden are on the collector's lists. */
bool collect_is_running(void);

/* From now on look at the reference counts of immortal objects at the start of any collection, if
   that is due (refcounts.h). Returns 0, or -1 with an exception set. */
int collect_mind_counts(void);

/* Whether free memory goes back to the system after each full collection (trim.h). Only while
   our callback is in place: collect_watch() or collect_mind_counts(). */
void collect_trim(bool on);

typedef struct {
    size_t collections; /* run out of line */
    size_t skipped;     /* left to the built-in one without memory */
    size_t declined;    /* left to the built-in one: there were other interpreters */
    hide_report last;
} collect_history;

/* The collections of this process so far. Never NULL; changes with each collection. */
const collect_history *collect_get_history(void);

/* Forget what belonged to an interpreter that has ended: nothing is watched. */
void collect_forget(void);

#endif
