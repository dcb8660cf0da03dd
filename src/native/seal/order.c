/* A bit for each object, set in one pass over the lists: marked, and noted where it is mortal. What was
 * sealed before is looked at as little as may be. `waiting` is the caller's.
 *
 * The bits say early which objects come next, so that their memory is asked for ahead: first the object,
 * then, from there, the storage of a list or a dictionary.
 */
#include "order.h"

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

#include "../gc/fetch.h"
#include "../process/scratch.h"
#include "sealed.h"

#include <errno.h>

static struct {
    mark_bits bits;
    scratch_stack unaligned; /* in a program's static memory */
    scratch_stack leaves;    /* of the bits, by their addresses */
    bool has_sealed;         /* they are left out, and in a set of their own */
} order;

typedef struct {
    visitproc visit;
    void *arg;
    fetch_queue objects;
    fetch_queue storage; /* their objects have arrived, what these point to has not */
} order_pass;

static int
add(PyObject *op, void *look)
{
    int err = (*(visitproc *)look)(op, NULL);
    if (err || !mark_bits_is_aligned(op)) {
        return err ? err : scratch_stack_push(&order.unaligned, op);
    }
    mark_bits_leaf *leaf = mark_bits_leaf_for(&order.bits, op);
    if (leaf == NULL) {
        return ENOMEM;
    }
    size_t index = mark_bits_word_index(op);
    uint64_t bit = mark_bits_mask(op);
    leaf->marked[index] |= bit;
    leaf->noted[index] |= cpy_is_immortal(op) ? 0 : bit;
    mark_bits_touch(leaf, index);
    return 0;
}

int
order_take(visitproc look)
{
    int err = mark_bits_init(&order.bits);
    if (err) {
        return err;
    }
    struct _gc_runtime_state *gc = cpy_gc_state();
    for (int i = -1; i < CPY_GENERATIONS && !err; i++) {
        PyGC_Head *list = cpy_gc_list(gc, i), *start = i < 0 ? sealed_end() : list;
        order.has_sealed = i < 0 ? start != list : order.has_sealed;
        err = cpy_gc_list_visit_from_both_ends(start, list, add, add, &look);
    }
    for (mark_bits_leaf *leaf = order.bits.first; !err && leaf != NULL; leaf = leaf->next) {
        err = scratch_stack_push(&order.leaves, leaf);
    }
    return err;
}

void
order_release(void)
{
    if (order.bits.tables != NULL) {
        mark_bits_release(&order.bits);
    }
    scratch_stack_release(&order.unaligned);
    scratch_stack_release(&order.leaves);
}

/* Ask for an object, or for nothing, and visit the one that has arrived. */
static inline int
pass_on(order_pass *pass, PyObject *op)
{
    if (op != NULL) {
        __builtin_prefetch(op, 1);
        __builtin_prefetch(op + 3, 1);
    }
    PyObject *fetched = fetch_exchange(&pass->objects, op);
    if (fetched != NULL) {
        const char *storage = cpy_storage(fetched);
        if (storage != NULL) {
            __builtin_prefetch(storage);
            __builtin_prefetch(storage + 64);
            __builtin_prefetch(storage + 128);
        }
    }
    PyObject *arrived = fetch_exchange(&pass->storage, fetched);
    return arrived != NULL ? pass->visit(arrived, pass->arg) : 0;
}

static int
finish(order_pass *pass)
{
    int result = 0;
    for (unsigned int i = 0; i < 2 * FETCH_LENGTH && !result; i++) {
        result = pass_on(pass, NULL);
    }
    return result;
}

typedef enum { ALL, MORTAL, WAITING } extent;

static uint64_t
word_of(const mark_bits_leaf *leaf, extent extent, size_t index)
{
    uint64_t among = extent == WAITING ? leaf->waiting[index] : ~(uint64_t)0;
    return extent == ALL ? leaf->marked[index] : leaf->noted[index] & among;
}

static int
visit_word(order_pass *pass, const mark_bits_leaf *leaf, uint64_t word, size_t index)
{
    int result = 0;
    for (uint64_t left = word; left && !result; left &= left - 1) {
        unsigned int bit = (unsigned int)__builtin_ctzll(left);
        result = pass_on(pass, mark_bits_object_at(leaf, index, bit));
    }
    return result;
}

/* The end of the last chunk at or before `end` that has a bit, or `end` within a chunk; 0: none. */
static size_t
skip_untouched_backwards(const mark_bits_leaf *leaf, size_t end)
{
    while (end > 0 && end % MARK_BITS_CHUNK_WORDS == 0
           && !leaf->touched[end / MARK_BITS_CHUNK_WORDS - 1]) {
        end -= MARK_BITS_CHUNK_WORDS;
    }
    return end;
}

static int
visit_word_backwards(order_pass *pass, const mark_bits_leaf *leaf, size_t index)
{
    int result = 0;
    for (uint64_t left = word_of(leaf, WAITING, index); left && !result;) {
        unsigned int bit = 63u - (unsigned int)__builtin_clzll(left);
        left &= ~((uint64_t)1 << bit);
        result = pass_on(pass, mark_bits_object_at(leaf, index, bit));
    }
    return result;
}

static int
visit_unaligned(visitproc visit, void *arg)
{
    int result = 0;
    for (size_t i = 0; i < order.unaligned.count && !result; i++) {
        result = visit(order.unaligned.items[i], arg);
    }
    return result;
}

static int
visit_leaf(order_pass *pass, const mark_bits_leaf *leaf, extent extent)
{
    int result = 0;
    size_t at = 0;
    while (!result && (at = mark_bits_skip_untouched(leaf, at)) < MARK_BITS_LEAF_WORDS) {
        result = visit_word(pass, leaf, word_of(leaf, extent, at), at);
        at++;
    }
    return result;
}

static int
visit_among(extent extent, visitproc visit, void *arg)
{
    order_pass pass = {.visit = visit, .arg = arg};
    int result = visit_unaligned(visit, arg);
    for (size_t i = 0; i < order.leaves.count && !result; i++) {
        result = visit_leaf(&pass, order.leaves.items[i], extent);
    }
    return result ? result : finish(&pass);
}

int
order_visit(visitproc visit, void *arg)
{
    return visit_among(ALL, visit, arg);
}

/* Memory that its owner has freed by hand holds something else by now. */
static int
visit_if_sealed(PyObject *op, void *arg)
{
    const order_pass *pass = arg;
    return cpy_is_immortal(op) && cpy_gc_listed(op) ? pass->visit(op, pass->arg) : 0;
}

int
order_visit_sealed(visitproc visit, void *arg)
{
    order_pass asked = {.visit = visit, .arg = arg};
    order_pass pass = {.visit = visit_if_sealed, .arg = &asked};
    int result = 0;
    const mark_bits_leaf *leaf = order.has_sealed ? sealed_set()->first : NULL;
    for (; leaf != NULL && !result; leaf = leaf->next) {
        result = visit_leaf(&pass, leaf, ALL);
    }
    return result ? result : finish(&pass);
}

int
order_visit_mortal(visitproc visit, void *arg)
{
    return visit_among(MORTAL, visit, arg);
}

int
order_visit_waiting(visitproc visit, void *arg)
{
    return visit_among(WAITING, visit, arg);
}

void
order_let_wait(PyObject *op, bool wait)
{
    mark_bits_leaf *leaf = mark_bits_find_leaf(&order.bits, op);
    if (leaf != NULL) {
        uint64_t *word = &leaf->waiting[mark_bits_word_index(op)], bit = mark_bits_mask(op);
        *word = wait ? *word | bit : *word & ~bit;
    }
}

bool
order_waits(const void *op)
{
    const mark_bits_leaf *leaf = mark_bits_find_leaf(&order.bits, op);
    return !mark_bits_is_aligned(op)
           || (leaf != NULL && (leaf->waiting[mark_bits_word_index(op)] & mark_bits_mask(op)));
}

int
order_visit_marked(const mark_bits *set, visitproc visit, void *arg)
{
    order_pass pass = {.visit = visit, .arg = arg};
    int result = visit_unaligned(visit, arg);
    for (size_t i = 0; i < order.leaves.count && !result; i++) {
        const mark_bits_leaf *leaf = order.leaves.items[i];
        const mark_bits_leaf *other = mark_bits_find_leaf(set, (void *)leaf->base);
        size_t at = other == NULL ? MARK_BITS_LEAF_WORDS : 0;
        while (!result && (at = mark_bits_skip_untouched(leaf, at)) < MARK_BITS_LEAF_WORDS) {
            result = visit_word(&pass, leaf, leaf->noted[at] & other->marked[at], at);
            at++;
        }
    }
    return result ? result : finish(&pass);
}

int
order_visit_waiting_backwards(visitproc visit, void *arg)
{
    order_pass pass = {.visit = visit, .arg = arg};
    int result = 0;
    for (size_t i = order.leaves.count; i > 0 && !result; i--) {
        const mark_bits_leaf *leaf = order.leaves.items[i - 1];
        size_t at = MARK_BITS_LEAF_WORDS;
        while (!result && (at = skip_untouched_backwards(leaf, at)) > 0) {
            result = visit_word_backwards(&pass, leaf, --at);
        }
    }
    result = result ? result : finish(&pass);
    return result ? result : visit_unaligned(visit, arg);
}

#endif
