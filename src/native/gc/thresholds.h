/* How often full collections are considered in the child of a sealed process.
 *
 * Little is not frozen there, and a full collection that looks at little costs little: then it
 * may come sooner than CPython would have it. What it costs cannot be told from the number of
 * objects (one list may hold a million references), so it is measured, and the thresholds of
 * generations 1 and 2 follow. CPython's other condition stays: a quarter as many new objects as
 * old ones.
 */
#ifndef PASTURE_THRESHOLDS_H
#define PASTURE_THRESHOLDS_H

#include <stdbool.h>

/* Consider full collections as soon as may be, from now on. Returns false, and does nothing,
   where the thresholds are not CPython's own: they are somebody's choice. */
bool thresholds_start(void);

/* Leave full collections to CPython's own thresholds again, if they are still ours. */
void thresholds_stop(void);

/* To be called around each full collection. */
void thresholds_before_collection(void);
void thresholds_after_collection(void);

/* Right after a freeze CPython still counts what was frozen as objects that survived the last
   full collection, and so waits for a quarter as many new ones. Count those that are left in
   the oldest generation instead, if most is frozen. Returns whether it is. */
bool thresholds_forget_frozen(void);

#endif
