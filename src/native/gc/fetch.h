/* A short queue of objects on their way into the cache.
 *
 * A walk that asks for an object's memory, does something else, and comes back sixteen objects later
 * need not wait for it.
 */
#ifndef PASTURE_FETCH_H
#define PASTURE_FETCH_H

#include "../cpython/cpython.h"

#define FETCH_LENGTH 16u /* a power of two */

/* All zero, it is empty. */
typedef struct {
    PyObject *objects[FETCH_LENGTH]; /* NULL: free */
    unsigned int next;
} fetch_queue;

/* Put an object, or NULL, into the queue. Returns the one that was put in longest ago, or NULL. */
static inline PyObject *
fetch_exchange(fetch_queue *queue, PyObject *op)
{
    PyObject *fetched = queue->objects[queue->next];
    queue->objects[queue->next] = op;
    queue->next = (queue->next + 1) % FETCH_LENGTH;
    return fetched;
}

#endif
