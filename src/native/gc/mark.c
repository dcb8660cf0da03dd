/* The walk of the mark phase, made so that it rarely waits for memory.
 *
 * An object goes from the stack of pending objects through two short queues to its traversal: the
 * first gives its header time to arrive in the cache, the second the storage of a list or
 * dictionary. The items of a long container are not followed in the order of the container, which
 * may be any, but in the order of addresses, in which neighbours share pages: their `waiting` bits
 * are set, and the walk passes through that bitmap again and again until nothing waits.
 *
 * The walk exists twice, over all objects and over noted ones only (`extent`). Both are made from
 * the same inline functions, with a constant that the compiler folds.
 */
#include "mark.h"

#ifndef CPY_UNSUPPORTED

#include "../check/verify.h"
#include "fetch.h"

#include <errno.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define RANGE_MIN_REFERENCES 64
#define WAITING_MIN_SHARE_BYTES 1024u

/* Which objects a walk marks. */
typedef enum { EVERYTHING, AMONG_NOTED } extent;

typedef struct {
    fetch_queue objects;
    fetch_queue storage; /* their objects have arrived, what these point to has not */
} fetch_queues;

/* Push, or have the walk fail. */
ALWAYS_INLINE void
push(mark_walk *walk, void *item, scratch_stack *stack)
{
    if (scratch_stack_push(stack, item) != 0) {
        walk->failed = true;
    }
}

/* Mark an object. Returns whether it had not been marked and is to be looked at. */
ALWAYS_INLINE bool
mark_new(mark_walk *walk, PyObject *op, extent extent)
{
    uint64_t bit = mark_bits_mask(op);
    size_t index = mark_bits_word_index(op);
    mark_bits_leaf *leaf;
    if (extent == AMONG_NOTED) {
        leaf = mark_bits_find_leaf(walk->bits, op);
        if (leaf == NULL || !(leaf->noted[index] & bit)) {
            return false;
        }
    }
    else {
        leaf = mark_bits_leaf_for(walk->bits, op);
        if (leaf == NULL) {
            walk->failed = true;
            return false;
        }
    }
    if (leaf->marked[index] & bit) {
        return false;
    }
    leaf->marked[index] |= bit;
    mark_bits_touch(leaf, index);
    return true;
}

ALWAYS_INLINE int
visit(PyObject *op, mark_walk *walk, extent extent)
{
    if (mark_new(walk, op, extent)) {
        push(walk, op, &walk->pending);
    }
    return 0;
}

static int
visit_anything(PyObject *op, void *walk)
{
    return visit(op, walk, EVERYTHING);
}

static int
visit_noted(PyObject *op, void *walk)
{
    return visit(op, walk, AMONG_NOTED);
}

/* Have the objects of a long container wait for the walk through the bitmap. What is not
   aligned would not be found again there. */
ALWAYS_INLINE void
let_wait(mark_walk *walk, PyObject **item, PyObject **end, Py_ssize_t stride, extent extent)
{
    for (; item < end; item += stride) {
        if (*item == NULL) {
            continue;
        }
        if (!mark_bits_is_aligned(*item)) {
            (void)visit(*item, walk, extent);
            continue;
        }
        mark_bits_leaf *leaf = mark_bits_leaf_for(walk->bits, *item);
        if (leaf == NULL) {
            walk->failed = true;
            return;
        }
        size_t index = mark_bits_word_index(*item);
        leaf->waiting[index] |= mark_bits_mask(*item);
        mark_bits_touch(leaf, index);
    }
    walk->waiting = true;
}

/* A walk through the bitmap takes time by its size: it must be worth it. */
ALWAYS_INLINE bool
is_worth_a_pass(const mark_walk *walk, Py_ssize_t references)
{
    return (size_t)references >= walk->bits->bytes / WAITING_MIN_SHARE_BYTES;
}

/* Follow references: at once if they are few, through the bitmap if that is worth a pass, and
   otherwise one by one as the stack runs empty (`ranges`: first, end, stride). */
ALWAYS_INLINE void
scan_references(mark_walk *walk, cpy_references references, extent extent)
{
    PyObject **end = references.first + references.count * references.stride;
    if (references.count < RANGE_MIN_REFERENCES) {
        for (PyObject **item = references.first; item < end; item += references.stride) {
            if (*item != NULL) {
                (void)visit(*item, walk, extent);
            }
        }
        return;
    }
    if (is_worth_a_pass(walk, references.count)) {
        let_wait(walk, references.first, end, references.stride, extent);
        return;
    }
    push(walk, references.first, &walk->ranges);
    push(walk, end, &walk->ranges);
    push(walk, (void *)references.stride, &walk->ranges);
}

/* Follow what a listed object refers to. Common containers are read from their layout. */
ALWAYS_INLINE void
scan(mark_walk *walk, PyObject *op, extent extent)
{
    PyTypeObject *type = Py_TYPE(op);
    if (type == &PyTuple_Type) {
        verify_references(op, cpy_tuple_references(op), NULL, NULL);
        scan_references(walk, cpy_tuple_references(op), extent);
        return;
    }
    if (type == &PyList_Type) {
        verify_references(op, cpy_list_references(op), NULL, NULL);
        scan_references(walk, cpy_list_references(op), extent);
        return;
    }
    if (type == &PyDict_Type) {
        cpy_references references = cpy_dict_references(op);
        if (references.count >= 0) {
            verify_references(op, references, NULL, NULL);
            scan_references(walk, references, extent);
            return;
        }
    }
    cpy_references values;
    PyObject *dict;
    if (cpy_plain_instance(op, walk->class_traverse, &values, &dict)) {
        verify_references(op, values, dict, (PyObject *)type);
        scan_references(walk, values, extent);
        if (dict != NULL) {
            (void)visit(dict, walk, extent);
        }
        (void)visit((PyObject *)type, walk, extent);
        return;
    }
    visitproc visitor = extent == EVERYTHING ? visit_anything : visit_noted;
    (void)type->tp_traverse(op, visitor, walk);
}

/* Note that `successor` follows a marked object in its list. */
ALWAYS_INLINE void
note(mark_walk *walk, PyObject *successor)
{
    if (!mark_bits_is_aligned(successor)) {
        push(walk, successor, &walk->unaligned);
        return;
    }
    mark_bits_leaf *leaf = mark_bits_leaf_for(walk->bits, successor);
    if (leaf == NULL) {
        walk->failed = true;
        return;
    }
    size_t index = mark_bits_word_index(successor);
    leaf->noted[index] |= mark_bits_mask(successor);
    mark_bits_touch(leaf, index);
}

/* Whether the marked object `op` is to be traversed. Notes its successor if so. */
ALWAYS_INLINE bool
is_listed(mark_walk *walk, PyObject *op, extent extent)
{
    if (extent == AMONG_NOTED) {
        return true;
    }
    if (!cpy_is_container(op)) {
        if (cpy_may_hide_in_list(op)) {
            mark_bits_unmark(walk->bits, op);
        }
        return false;
    }
    PyGC_Head *next = cpy_gc_next(cpy_gc_head(op));
    if (next == NULL) {
        return false;
    }
    note(walk, cpy_gc_object(next));
    return true;
}

/* The next waiting object in the order of addresses, or NULL. */
ALWAYS_INLINE PyObject *
take_waiting(mark_walk *walk, extent extent)
{
    for (;;) {
        if (walk->leaf == NULL) {
            if (!walk->waiting) {
                return NULL;
            }
            walk->waiting = false;
            walk->leaf = walk->bits->first;
            walk->word = 0;
        }
        for (; walk->word < MARK_BITS_LEAF_WORDS; walk->word++) {
            walk->word = mark_bits_skip_untouched(walk->leaf, walk->word);
            if (walk->word == MARK_BITS_LEAF_WORDS) {
                break;
            }
            while (walk->leaf->waiting[walk->word]) {
                uint64_t left = walk->leaf->waiting[walk->word];
                walk->leaf->waiting[walk->word] = left & (left - 1);
                PyObject *op = mark_bits_object_at(walk->leaf, walk->word,
                                                   (unsigned int)__builtin_ctzll(left));
                if (mark_new(walk, op, extent)) {
                    return op;
                }
            }
        }
        walk->leaf = walk->leaf->next;
        walk->word = 0;
    }
}

/* The next object to be fetched, or NULL. */
ALWAYS_INLINE PyObject *
take(mark_walk *walk, extent extent)
{
    if (walk->pending.count) {
        return scratch_stack_pop(&walk->pending);
    }
    while (walk->ranges.count) {
        void **top = &walk->ranges.items[walk->ranges.count - 3];
        PyObject **item = top[0], **end = top[1];
        Py_ssize_t stride = (Py_ssize_t)top[2];
        for (; item < end; item += stride) {
            if (*item != NULL && mark_new(walk, *item, extent)) {
                top[0] = item + stride;
                return *item;
            }
        }
        walk->ranges.count -= 3;
    }
    return take_waiting(walk, extent);
}

/* One step: an object enters the first queue, one passes to the second, one leaves it.
   Returns whether there was any. */
ALWAYS_INLINE bool
step(mark_walk *walk, fetch_queues *queues, extent extent)
{
    PyObject *taken = take(walk, extent);
    if (taken != NULL) {
        __builtin_prefetch(cpy_gc_head(taken));
        __builtin_prefetch(taken + 1);
    }
    PyObject *fetched = fetch_exchange(&queues->objects, taken);
    PyObject *delayed = NULL;
    if (fetched != NULL && is_listed(walk, fetched, extent)) {
        walk->listed++;
        const char *storage = cpy_storage(fetched);
        if (storage == NULL) {
            scan(walk, fetched, extent);
        }
        else {
            __builtin_prefetch(storage);
            __builtin_prefetch(storage + 64);
            delayed = fetched;
        }
    }
    PyObject *arrived = fetch_exchange(&queues->storage, delayed);
    if (arrived != NULL) {
        scan(walk, arrived, extent);
    }
    return taken != NULL || fetched != NULL || arrived != NULL;
}

/* Walk until both queues have been empty for long enough that nothing is on its way. */
ALWAYS_INLINE int
run(mark_walk *walk, extent extent)
{
    fetch_queues queues = {0};
    for (unsigned int idle = 0; idle < 2 * FETCH_LENGTH && !walk->failed; idle++) {
        if (step(walk, &queues, extent)) {
            idle = 0;
        }
    }
    return walk->failed ? ENOMEM : 0;
}

int
mark_from_roots(mark_walk *walk, PyGC_Head *held)
{
    if (held != NULL) {
        for (PyGC_Head *gc = cpy_gc_next(held); gc != held; gc = cpy_gc_next(gc)) {
            (void)visit(cpy_gc_object(gc), walk, EVERYTHING);
        }
    }
    cpy_roots_visit(walk->modules, visit_anything, walk);
    return run(walk, EVERYTHING);
}

void
mark_add_noted(mark_walk *walk, PyObject *op)
{
    (void)visit(op, walk, AMONG_NOTED);
}

int
mark_among_noted(mark_walk *walk)
{
    return run(walk, AMONG_NOTED);
}

void
mark_release(mark_walk *walk)
{
    scratch_stack_release(&walk->pending);
    scratch_stack_release(&walk->ranges);
    scratch_stack_release(&walk->unaligned);
}

#endif
