/* The walk that makes every object of the heap immortal.
 *
 * It goes over the collector's lists and follows references from each object. It needs no set of
 * visited objects:
 *   - a listed object is traversed when the walk comes to it in its list, once;
 *   - an object that is not listed is traversed when it is made immortal, once;
 *   - what was immortal before the walk is not traversed, unless it is listed or is a
 *     type: static types are immortal from the start and refer to mortal objects.
 *
 * Invariant: whatever is immortal and not listed has been traversed or is on the stack.
 *
 * Registered containers (containers.h) are asked for their items last, when every list
 * has been walked: Python code runs then, and may allocate.
 */
#include "immortal.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

#include "../check/verify.h"
#include "../gc/refcounts.h"
#include "../process/scratch.h"
#include "containers.h"
#include "ends.h"
#include "order.h"
#include "referents.h"
#include "sealed.h"
#include "specialize.h"
#include "types.h"

#include <errno.h>

/* Containers that were met, in this walk and in those before it: immortal, so they never die. Their
   items may have changed since the last walk, which does not traverse them again. */
static scratch_stack containers;

static bool has_walked; /* and its mortal objects were not unfrozen since */

/* Longer ones are texts and blobs, which are not used as keys. */
#define HASHED_MAX_BYTES 256

typedef struct {
    immortal_counts *counts;
    scratch_stack pending; /* reached from a container's item, referents still to be visited */
    scratch_stack codes;   /* code objects whose instructions are to be settled */
    scratch_stack mortal;  /* containers that stay mortal */
    mark_bits ends;        /* what stays mortal, while Python code runs */
    Py_ssize_t keys_count; /* of an immortal key table; 0 without one */
    containers_lookup lookup;
} immortal_walk;

/* Whether the walk leaves `op` as it is: it ends, and its end has an effect. */
static bool
leaves_mortal(PyObject *op)
{
    return cpy_is_running_thing(op) || ends_matters(op)
           || cpy_must_stay_mortal(op) /* not reached: a debug build keeps some mortal */
           || ends_is_being_filled(op);
}

/* A hash is computed and stored at its first use: have that happen before the fork. */
static void
precompute_hash(immortal_walk *walk, PyObject *op)
{
    bool missing;
    if (PyUnicode_CheckExact(op)) {
        missing = cpy_str_hash(op) == -1 && PyUnicode_GET_LENGTH(op) <= HASHED_MAX_BYTES;
    }
    else if (PyBytes_CheckExact(op)) {
        missing = cpy_bytes_hash(op) == -1 && PyBytes_GET_SIZE(op) <= HASHED_MAX_BYTES;
    }
    else {
        return;
    }
    if (missing) {
        (void)PyObject_Hash(op); /* cannot fail for these types */
        walk->counts->hashes++;
    }
}

/* The key table of a class counts the instances that use it, unless its count says "never freed". */
static void
make_shared_keys_immortal(immortal_walk *walk, PyTypeObject *type)
{
    PyDictKeysObject *keys = cpy_shared_keys(type);
    if (keys == NULL) {
        return;
    }
    cpy_shared_keys_assign_version(keys);
    cpy_shared_keys_settle(keys);
    if (walk->keys_count != 0 /* not reached: a CPython that counts all tables */
        && keys->dk_refcnt != walk->keys_count) {
        keys->dk_refcnt = walk->keys_count;
        walk->counts->key_tables++;
    }
}

/* Precondition: `op` is mortal, and a str, bytes or number. */
static int
seal_value(PyObject *op, void *arg)
{
    immortal_walk *walk = arg;
    precompute_hash(walk, op);
    if (cpy_must_stay_mortal(op)) { /* not reached: a debug build keeps some mortal */
        return 0;
    }
    int err = refcounts_watch(op);
    if (!err) {
        cpy_make_immortal(op);
        walk->counts->objects++;
    }
    return err;
}

/* Precondition: `op` is mortal. */
static int
seal(immortal_walk *walk, PyObject *op)
{
    bool is_container = containers_is_known(&walk->lookup, Py_TYPE(op));
    int err = is_container ? scratch_stack_push(&containers, op) : 0;
    if (!err && (err = seal_value(op, walk)) != 0 && is_container) {
        (void)scratch_stack_pop(&containers);
    }
    return !err && PyCode_Check(op) ? scratch_stack_push(&walk->codes, op) : err;
}

static int
seal_met(PyObject *op, void *arg)
{
    immortal_walk *walk = arg;
    if (leaves_mortal(op)) {
        walk->counts->left_mortal++;
        PyTypeObject *type = ends_foreign_type(op);
        if (type != NULL) {
            type_counts_add(&walk->counts->types, type, op);
        }
        bool is_container = containers_is_known(&walk->lookup, Py_TYPE(op));
        return is_container ? scratch_stack_push(&walk->mortal, op) : 0;
    }
    return cpy_is_immortal(op) ? 0 : seal(walk, op);
}

/* A listed object was sealed on its own, or stays mortal. */
static int
seal_item(PyObject *op, void *arg)
{
    immortal_walk *walk = arg;
    if (cpy_is_immortal(op) || cpy_gc_listed(op) || ends_is_being_filled(op)
        || mark_bits_is_marked(&walk->ends, op)) {
        return 0;
    }
    int err = seal(walk, op);
    return !err && referents_may_exist(op) ? scratch_stack_push(&walk->pending, op) : err;
}

/* The item is followed while it is held: it may exist for this visit alone. */
static int
visit_item(PyObject *item, void *arg)
{
    immortal_walk *walk = arg;
    int err = ends_shows(item) ? 0 : seal_item(item, walk);
    while (!err && walk->pending.count) {
        err = referents_visit(scratch_stack_pop(&walk->pending), seal_item, walk);
    }
    return err;
}

static int
visit_container(immortal_walk *walk, PyObject *container)
{
    bool failed = false;
    int err = containers_visit(container, visit_item, walk, &failed);
    walk->counts->containers_failed += failed;
    walk->lookup = (containers_lookup){0};
    return err;
}

/* Items may be containers, which come to the end of the stack. Those that stay mortal are held: the
   functions may let them go. */
static int
visit_containers(immortal_walk *walk)
{
    int err = 0;
    for (size_t i = 0; i < walk->mortal.count; i++) {
        Py_INCREF((PyObject *)walk->mortal.items[i]);
    }
    walk->counts->containers = (Py_ssize_t)walk->mortal.count;
    while (walk->mortal.count) {
        PyObject *container = scratch_stack_pop(&walk->mortal);
        err = err ? err : visit_container(walk, container);
        Py_DECREF(container);
    }
    for (size_t i = 0; i < containers.count && !err; i++) {
        err = visit_container(walk, containers.items[i]);
    }
    walk->counts->containers += (Py_ssize_t)containers.count;
    return err;
}

static int
settle_type(PyTypeObject *type, void *walk)
{
    make_shared_keys_immortal(walk, type);
    return 0;
}

/* Returns 0, or ENOMEM if the instructions of some code could not be settled. */
static int
settle_bytecode(immortal_walk *walk)
{
    int err = 0;
    while (walk->codes.count) {
        PyCodeObject *code = scratch_stack_pop(&walk->codes);
        Py_ssize_t rewritten = specialize_code(code);
        if (rewritten < 0) {
            PyErr_Clear(); /* reported once, at the end */
            err = ENOMEM;
            continue;
        }
        walk->counts->instructions += rewritten;
    }
    return err;
}

static int
find_keys_count(immortal_walk *walk)
{
    PyObject *empty = PyDict_New();
    if (empty == NULL) {
        return -1;
    }
    Py_ssize_t count = cpy_immortal_keys_count(empty);
    Py_DECREF(empty);
    /* not reached: a CPython that counts all tables */
    walk->keys_count = count < 0 || count > INT32_MAX ? count : 0;
    return 0;
}

int
immortal_make_heap(immortal_counts *counts)
{
    immortal_walk walk = {.counts = counts};
    PyObject *types = types_all(); /* made first: the walk itself allocates no object */
    if (types == NULL || find_keys_count(&walk) < 0 || ends_prepare() < 0) {
        Py_XDECREF(types);
        return -1;
    }
    PyObject_GC_UnTrack(types); /* scaffolding, which goes before the walk ends */
    int err = ends_find(types, seal_value, &walk);
    if (!err) {
        counts->owners_left_out = ends_owners_are_left_out();
        (void)types_each(types, settle_type, &walk);
        err = order_visit_mortal(seal_met, &walk);
        err = err ? err : ends_visit_unlisted(seal_met, &walk);
    }
    Py_DECREF(types);
    order_release(); /* Python code may free objects */
    if (!err) {
        verify_heap_is_immortal(leaves_mortal); /* Python code may make mortal objects */
        walk.ends = ends_hand_over();           /* that code may seal, too */
        err = visit_containers(&walk);
        mark_bits_release(&walk.ends);
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* of a signal's handler */
    jit_forget_traces();
    /* Also after a failure: what was made immortal can be settled, constant by constant. */
    int unsettled = settle_bytecode(&walk);
    err = err ? err : unsettled;
    counts->scratch_bytes = walk.pending.peak_bytes + walk.codes.peak_bytes;
    scratch_stack_release(&walk.pending);
    scratch_stack_release(&walk.codes);
    scratch_stack_release(&walk.mortal);
    PyErr_Restore(type, value, traceback);
    ends_release();
    if (err) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return -1;
    }
    verify_code_counts_no_constants();
    has_walked = true;
    return 0;
}

void
immortal_forget(void)
{
    scratch_stack_release(&containers);
    has_walked = false;
}

typedef struct {
    PyGC_Head *place; /* before which the last ones go */
    bool failed;      /* not all that is immortal is known as sealed */
} unfreezing;

/* To the end of the oldest generation, in their order. */
static int
unfreeze_mortal(PyObject *op, void *arg)
{
    unfreezing *work = arg;
    if (!cpy_is_immortal(op)) {
        cpy_gc_move_before(cpy_gc_head(op), work->place);
    }
    else if (!work->failed) {
        work->failed = sealed_add(op) != 0;
    }
    return 0;
}

static int
unfreeze_mortal_backwards(PyObject *op, void *arg)
{
    unfreezing *work = arg;
    (void)unfreeze_mortal(op, work);
    if (!cpy_is_immortal(op)) {
        work->place = cpy_gc_head(op);
    }
    return 0;
}

void
immortal_unfreeze_mortal(void)
{
    if (!has_walked) {
        return;
    }
    has_walked = false;
    struct _gc_runtime_state *state = cpy_gc_state();
    PyGC_Head *list = cpy_gc_permanent(state), *end = sealed_end();
    if (end == list) {
        sealed_note(false);
    }
    unfreezing work = {.place = cpy_gc_generation(state, CPY_GENERATIONS - 1)};
    (void)cpy_gc_list_visit_from_both_ends(end, list, unfreeze_mortal, unfreeze_mortal_backwards,
                                           &work);
    sealed_note(!work.failed);
}

#else

void
immortal_forget(void)
{
}

#endif
#endif
