/* Puts two lists into the list of frozen objects, and looks whether they are still where they were. */
#include "frozen.h"

#ifndef CPY_UNSUPPORTED

static PyObject *start;
static unsigned long life; /* how often it had to be put at the start */

enum { OWN_MAX = 4 };
static struct {
    PyObject *lists[OWN_MAX]; /* borrowed: they are immortal, or their part holds them */
    size_t count;
} own;

/* Make sure that a list of ours is there, immortal as what it is among, and in one of the collector's
   lists: a collection takes immortal objects out. Returns 0, or -1 with an exception set. */
static int
ensure_list(PyObject **list)
{
    if (*list == NULL) {
        assert(own.count < OWN_MAX);
        if ((*list = PyList_New(0)) == NULL) {
            return -1;
        }
        own.lists[own.count++] = *list;
    }
#  if CPY_HAS_IMMORTALITY
    cpy_make_immortal(*list);
#  endif
    if (!cpy_gc_listed(*list)) {
        PyObject_GC_Track(*list);
    }
    return 0;
}

static bool
is_at_start(void)
{
    return cpy_gc_next(cpy_gc_permanent(cpy_gc_state())) == cpy_gc_head(start);
}

int
frozen_part_prepare(frozen_part *part)
{
    part->life = 0;
    return ensure_list(&part->end);
}

int
frozen_part_note(frozen_part *part)
{
    if (frozen_part_prepare(part) < 0 || ensure_list(&start) < 0) {
        return -1;
    }
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state());
    if (!is_at_start()) {
        cpy_gc_move_to_start(cpy_gc_head(start), list);
        life++;
    }
    cpy_gc_move_before(cpy_gc_head(part->end), list);
    part->life = life;
    return 0;
}

PyGC_Head *
frozen_part_end(const frozen_part *part)
{
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state());
    if (part->life == 0 || part->life != life || !is_at_start()) {
        return list;
    }
    PyGC_Head *end = cpy_gc_head(part->end), *node = list;
    do {
        node = cpy_gc_prev(node);
    } while (node != end && node != list); /* not reached: what takes it out takes the start out */
    return node;
}

bool
frozen_is_own(const PyObject *op)
{
    for (size_t i = 0; i < own.count; i++) {
        if (own.lists[i] == op) {
            return true;
        }
    }
    return false;
}

void
frozen_forget(void)
{
    start = NULL;
    own.count = 0;
}

#endif
