/* All objects of the collector's lists, in the order of their addresses; those that an earlier seal is known
 * to have sealed apart (sealed.h).
 *
 * A collection that frees anything leaves the lists in any order, and a walk over them then waits for
 * memory at each object. The seal goes over all of them several times, so it first makes an order of its
 * own. The lists stay as they are: the parent's finalizers are called in their order.
 */
#ifndef PASTURE_ORDER_H
#define PASTURE_ORDER_H

#include "../cpython/cpython.h"
#include "../gc/mark_bits.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

/* Until order_release() no listed object may be freed. One that is listed later is not visited.
   `look` is called with each on the way, in any order. Returns 0 or errno; to be released in any case. */
int order_take(visitproc look);
void order_release(void);

/* Call `visit` with each of the objects. Stops at its first result that is not 0 and returns that. */
int order_visit(visitproc visit, void *arg);

/* The same with what an earlier seal has sealed. It may have left its list since. */
int order_visit_sealed(visitproc visit, void *arg);

/* The same with those that were mortal when the order was taken. */
int order_visit_mortal(visitproc visit, void *arg);

/* The same with those of them that wait, or cannot; also from the highest address to the lowest. */
int order_visit_waiting(visitproc visit, void *arg);
int order_visit_waiting_backwards(visitproc visit, void *arg);
void order_let_wait(PyObject *op, bool wait);
bool order_waits(const void *op);

/* The same with those of them that are marked in another set. */
int order_visit_marked(const mark_bits *set, visitproc visit, void *arg);

#endif
#endif
