/* Finds the unreached objects without a walk over the lists, and subtracts their references.
 *
 * Unreached objects form runs. A run starts at the head of a list or right after a marked
 * object, and the mark phase has noted that start. So the runs are found from the bitmaps. A run
 * ends at the next marked object; heads of lists are marked to end the last one.
 *
 * Counts are kept in an array, indexed by the rank of the object in the bitmap. No object is
 * written to, and none but the unreached ones is read.
 */
#include "unreachable.h"

#ifndef CPY_UNSUPPORTED

#include <errno.h>
#include <string.h>

#define PREFETCH_DISTANCE 8u
#define BATCH_OBJECTS 4096u /* as many wait to be marked, not all of them */

/* A count that no number of references from within uses up. */
#define HELD_COUNT (INT32_MAX / 2)

/* --- Finding it ------------------------------------------------------------------------ */

/* Push the successors of marked objects that are not marked themselves; clear all notes. */
static int
take_notes(scratch_stack *starts, mark_bits *bits)
{
    for (mark_bits_leaf *leaf = bits->first; leaf != NULL; leaf = leaf->next) {
        for (size_t i = 0; (i = mark_bits_skip_untouched(leaf, i)) < MARK_BITS_LEAF_WORDS; i++) {
            uint64_t left = leaf->noted[i] & ~leaf->marked[i];
            for (; left; left &= left - 1) {
                unsigned int bit = (unsigned int)__builtin_ctzll(left);
                int err = scratch_stack_push(starts, mark_bits_object_at(leaf, i, bit));
                if (err) {
                    return err;
                }
            }
            if (leaf->noted[i]) {
                leaf->noted[i] = 0;
            }
        }
        memset(leaf->touched, 0, sizeof leaf->touched); /* from here on: by unreached ones */
    }
    return 0;
}

/* Note `op` and those after it in its list, up to the first marked one. */
static int
take_run(unreachable_set *set, mark_bits *bits, PyObject *op)
{
    for (;;) {
        uint64_t bit = mark_bits_mask(op);
        size_t index = mark_bits_word_index(op);
        mark_bits_leaf *leaf = mark_bits_leaf_for(bits, op);
        if (leaf == NULL) {
            return ENOMEM;
        }
        if ((leaf->marked[index] | leaf->noted[index]) & bit) {
            return 0;
        }
        leaf->noted[index] |= bit;
        mark_bits_touch(leaf, index);
        int err = scratch_stack_push(&set->objects, op);
        if (err) {
            return err;
        }
        op = cpy_gc_object(cpy_gc_next(cpy_gc_head(op)));
    }
}

/* A run ends at a marked object: let the heads of lists pass for such. */
static int
mark_ends(mark_bits *bits, const unreachable_lists *lists)
{
    for (int i = 0; i < lists->count; i++) {
        int err = mark_bits_mark(bits, cpy_gc_object(lists->heads[i]));
        if (err) {
            return err;
        }
    }
    return 0;
}

/* The first object of each examined list may start a run; nothing notes it. */
static int
take_firsts(scratch_stack *starts, const unreachable_lists *lists)
{
    int err = 0;
    for (int i = lists->first_examined; i < lists->count && !err; i++) {
        err = scratch_stack_push(starts, cpy_gc_object(cpy_gc_next(lists->heads[i])));
    }
    return err;
}

int
unreachable_find(unreachable_set *set, mark_bits *bits, const unreachable_lists *lists,
                 const scratch_stack *unaligned)
{
    scratch_stack starts = {0};
    int err = mark_ends(bits, lists);
    if (!err) {
        err = take_firsts(&starts, lists);
    }
    for (size_t i = 0; i < unaligned->count && !err; i++) {
        err = scratch_stack_push(&starts, unaligned->items[i]);
    }
    if (!err) {
        err = take_notes(&starts, bits);
    }
    for (size_t i = 0; i < starts.count && !err; i++) {
        err = take_run(set, bits, starts.items[i]);
    }
    set->bytes += starts.peak_bytes;
    scratch_stack_release(&starts);
    return err;
}

/* --- The dead and the alive ------------------------------------------------------------ */

typedef struct {
    const mark_bits *bits;
    int32_t *counts; /* by rank */
} subtraction;

static inline PyObject *
object_at(const unreachable_set *set, size_t i)
{
    if (i + PREFETCH_DISTANCE < set->objects.count) {
        PyObject *ahead = set->objects.items[i + PREFETCH_DISTANCE];
        __builtin_prefetch(cpy_gc_head(ahead));
        __builtin_prefetch(ahead + 1);
    }
    return set->objects.items[i];
}

/* Whether an object is alive whatever refers to it. The built-in collector does not count
   references either to an object that is no container now, as greenlets are while they run. */
static inline bool
is_held_anyway(PyObject *op)
{
    return cpy_is_immortal(op) || !cpy_is_container(op);
}

/* The reference count of each object, into its place in the array. */
static void
take_counts(const unreachable_set *set, const subtraction *subtraction)
{
    for (size_t i = 0; i < set->objects.count; i++) {
        PyObject *op = object_at(set, i);
        Py_ssize_t count = is_held_anyway(op) ? HELD_COUNT : Py_REFCNT(op);
        subtraction->counts[mark_bits_rank_of(subtraction->bits, op)] =
            (int32_t)Py_MIN(count, INT32_MAX);
    }
}

static int
visit_subtract(PyObject *op, void *arg)
{
    const subtraction *subtraction = arg;
    if (mark_bits_is_noted(subtraction->bits, op)) {
        subtraction->counts[mark_bits_rank_of(subtraction->bits, op)]--;
    }
    return 0;
}

/* Take off the references among the unreached objects. What is left comes from outside. */
static void
subtract_references(const unreachable_set *set, subtraction *subtraction)
{
    for (size_t i = 0; i < set->objects.count; i++) {
        PyObject *op = object_at(set, i);
        (void)Py_TYPE(op)->tp_traverse(op, visit_subtract, subtraction);
    }
}

/* Mark the objects with a count above 0, and what they reach. */
static int
mark_held_from_outside(const unreachable_set *set, const int32_t *counts, mark_walk *walk)
{
    for (size_t i = 0; i < set->objects.count; i++) {
        PyObject *op = set->objects.items[i];
        if (counts[mark_bits_rank_of(walk->bits, op)] > 0) {
            mark_add_noted(walk, op);
        }
        if (walk->pending.count >= BATCH_OBJECTS && mark_among_noted(walk) != 0) {
            return ENOMEM;
        }
    }
    return mark_among_noted(walk);
}

int
unreachable_mark_alive(unreachable_set *set, mark_walk *walk)
{
    size_t bytes = (set->objects.count + 1) * sizeof(int32_t); /* some, where there is none */
    int err = mark_bits_rank(walk->bits);
    subtraction subtraction = {.bits = walk->bits};
    if (err || (err = scratch_map((void **)&subtraction.counts, bytes)) != 0) {
        return err;
    }
    set->bytes += bytes;
    take_counts(set, &subtraction);
    subtract_references(set, &subtraction);
    size_t listed_before = walk->listed;
    err = mark_held_from_outside(set, subtraction.counts, walk);
    set->garbage = set->objects.count - (walk->listed - listed_before);
    scratch_unmap(subtraction.counts, bytes);
    return err;
}

void
unreachable_release(unreachable_set *set)
{
    scratch_stack_release(&set->objects);
}

#endif
