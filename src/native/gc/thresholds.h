/* When full collections come, in the child of a sealed process.
 *
 * Nearly all of such a heap is frozen, and a full collection that examines little costs little: it
 * may come sooner than CPython would have it. The number of objects does not give its cost, since
 * one list may hold a million references. So it is measured, and the thresholds of generations
 * 1 and 2 follow. CPython's other condition stays: a quarter as many new objects as
 * old ones.
 */
#ifndef PASTURE_THRESHOLDS_H
#define PASTURE_THRESHOLDS_H

#include <stdbool.h>

/* Lower the thresholds as far as they go, and from now on adapt them to the cost of full
   collections. Returns false, and does nothing, where they are not CPython's own: then the
   program has chosen them. */
bool thresholds_start(void);

/* Set CPython's own thresholds again, if the present ones are still ours. */
void thresholds_stop(void);

/* As at the start: another interpreter has thresholds of its own. */
void thresholds_forget(void);

/* To be called around each full collection. */
void thresholds_before_collection(void);
void thresholds_after_collection(void);

/* Whether a full collection is worth its cost right now, where few objects are alive: between two
   requests. It is once the process has run so long since the last one that its cost is a small
   part of that. False where the thresholds are not ours, or the collector is off. Takes less than
   a microsecond. */
bool thresholds_collection_pays(void);

/* Have CPython forget what was frozen. Right after a freeze it still counts that as objects that
   survived the last full collection, and so waits for a quarter as many new ones. If most of the
   heap is frozen, count what is left in the oldest generation instead, and return true. */
bool thresholds_forget_frozen(void);

#endif
