/* Drives the search for garbage, and owns the list `hidden`.
 *
 * Survivors are hidden by splicing: a whole generation moves to `hidden`, which writes to the ends
 * of two lists, after the garbage was taken out of it. So the cost goes with the garbage, and
 * survivors are not written to.
 */
#include "hide.h"

#ifndef CPY_UNSUPPORTED

#include "../check/verify.h"
#include "../process/clock.h"
#include "mark.h"
#include "unreachable.h"

#include <errno.h>
#include <pthread.h>

/* A generation 0 up to this size is left to the built-in collector, which meets it at the
   next young collection anyway. There it finds cycles between old and new garbage, and stops
   tracking new tuples and dictionaries that hold nothing to track. */
#define YOUNG_MAX_OBJECTS 2000u

static PyGC_Head hidden; /* a list; its links are NULL while nothing is hidden */
static size_t hidden_objects;
static struct _gc_runtime_state *collecting_state; /* whose survivors are hidden */
static pthread_t collecting_thread;                /* which thread collects meanwhile */
static traverseproc class_traverse;
static PyObject *modules; /* sys.modules, which stays the same as long as the interpreter lives */

/* --- The search -------------------------------------------------------------------------- */

/* The state of one collection. All of its memory is given back at the end of hide_begin(). */
typedef struct {
    struct _gc_runtime_state *gc;
    bool include_frozen;
    size_t frozen; /* objects not examined, if they were counted */
    mark_bits bits;
    mark_walk walk;
    unreachable_set unreached;
} search;

/* Frozen objects that are not examined count as roots, which must be walked through too.
   Where they are the larger part of the heap, as in the child of a sealed process, that
   costs more than it saves: then nothing is reached from roots, and all that is examined
   counts as unreached. */
static bool
starts_from_roots(search *search)
{
    if (search->include_frozen) {
        return true;
    }
    struct _gc_runtime_state *gc = search->gc;
    size_t unfrozen =
        (size_t)(gc->long_lived_total + gc->long_lived_pending) + CPY_GC_FROZEN_AT_START_OBJECTS;
    search->frozen = cpy_gc_count_up_to(cpy_gc_permanent(gc), unfrozen);
    return search->frozen < unfrozen;
}

/* Steps 1 and 2 of collect.h. Returns 0 or ENOMEM; nothing but bitmaps has changed in either case. */
static int
find_garbage(search *search, hide_report *report)
{
    PyGC_Head *permanent = cpy_gc_permanent(search->gc);
    unreachable_lists lists = {{permanent}, 1, search->include_frozen ? 0 : 1};
    for (int i = 0; i < CPY_GENERATIONS; i++) {
        lists.heads[lists.count++] = cpy_gc_generation(search->gc, i);
    }
    bool include_frozen = search->include_frozen;
    int err = 0;
    report->from_roots = starts_from_roots(search);
    if (report->from_roots) {
        err = mark_from_roots(&search->walk, include_frozen ? NULL : permanent);
        if (!include_frozen) {
            search->walk.listed -= search->frozen;
        }
    }
    if (!err) {
        err = unreachable_find(&search->unreached, &search->bits, &lists, &search->walk.unaligned);
    }
    if (!err) {
        err = unreachable_mark_alive(&search->unreached, &search->walk);
    }
    report->unreached = search->unreached.objects.count;
    report->garbage = search->unreached.garbage;
    report->objects = search->walk.listed + report->garbage;
    return err;
}

/* --- Hiding the survivors ------------------------------------------------------------------ */

/* Move garbage out of `list` to `found`, keeping its order. The search goes from the end
   of the list, where garbage most often is, until all `left` objects are found. */
static void
take_garbage(PyGC_Head *list, PyGC_Head *found, const mark_bits *bits, size_t *left)
{
    cpy_gc_list_init(found);
    for (PyGC_Head *gc = cpy_gc_prev(list); gc != list && *left;) {
        PyGC_Head *previous = cpy_gc_prev(gc);
        __builtin_prefetch(previous);
        if (unreachable_is_garbage(bits, cpy_gc_object(gc))) {
            cpy_gc_move_to_start(gc, found);
            (*left)--;
        }
        gc = previous;
    }
}

/* Number of objects of `list` that are garbage. */
static size_t
count_garbage(PyGC_Head *list, const mark_bits *bits)
{
    size_t count = 0;
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list; gc = cpy_gc_next(gc)) {
        count += unreachable_is_garbage(bits, cpy_gc_object(gc));
    }
    return count;
}

/* Each object of garbage stays in its generation: so the built-in collector joins them in its
   usual order, and finalizes them in that order. */
static void
hide_survivors(search *search, size_t garbage)
{
    struct _gc_runtime_state *gc = search->gc;
    PyGC_Head *young = cpy_gc_generation(gc, 0);
    PyGC_Head found[CPY_GENERATIONS], frozen;
    size_t left = garbage;
    size_t left_visible = cpy_gc_count_up_to(young, YOUNG_MAX_OBJECTS + 1);
    bool hides_young = left_visible > YOUNG_MAX_OBJECTS;
    if (hides_young) {
        left_visible = 0;
        take_garbage(young, &found[0], &search->bits, &left);
    }
    else {
        size_t young_garbage = count_garbage(young, &search->bits);
        left -= young_garbage;
        left_visible -= young_garbage;
    }
    take_garbage(cpy_gc_generation(gc, 1), &found[1], &search->bits, &left);
    take_garbage(cpy_gc_generation(gc, 2), &found[2], &search->bits, &left);
    if (search->include_frozen) {
        take_garbage(cpy_gc_permanent(gc), &frozen, &search->bits, &left);
        left_visible += cpy_gc_count_up_to(cpy_gc_permanent(gc), SIZE_MAX);
    }
    hidden_objects = search->walk.listed - left_visible;
    /* In the order in which a full collection joins the generations. */
    cpy_gc_splice(cpy_gc_generation(gc, 2), &hidden);
    if (hides_young) {
        cpy_gc_splice(young, &hidden);
        cpy_gc_splice(&found[0], young);
    }
    cpy_gc_splice(cpy_gc_generation(gc, 1), &hidden);
    if (search->include_frozen) {
        cpy_gc_splice(&frozen, cpy_gc_generation(gc, 2));
    }
    cpy_gc_splice(&found[1], cpy_gc_generation(gc, 1));
    cpy_gc_splice(&found[2], cpy_gc_generation(gc, 2));
}

void
hide_begin(bool include_frozen, hide_report *report)
{
    uint64_t start_ns = clock_monotonic_ns();
    search search = {.gc = cpy_gc_state(), .include_frozen = include_frozen};
    *report = (hide_report){0};
    collecting_state = search.gc;
    collecting_thread = pthread_self();
    cpy_gc_list_init(&hidden);
    int err = mark_bits_init(&search.bits);
    if (!err) {
        search.walk.bits = &search.bits;
        search.walk.class_traverse = class_traverse;
        search.walk.modules = modules;
        err = find_garbage(&search, report);
        if (!err) {
            verify_garbage(&search.bits, include_frozen);
            hide_survivors(&search, report->garbage);
        }
        report->scratch_bytes = search.bits.bytes + search.walk.pending.peak_bytes
                                + search.walk.ranges.peak_bytes + search.walk.unaligned.peak_bytes
                                + search.unreached.objects.peak_bytes + search.unreached.bytes;
        mark_release(&search.walk);
        unreachable_release(&search.unreached);
        mark_bits_release(&search.bits);
    }
    if (err) {
        hidden = (PyGC_Head){0};
    }
    report->finished = !err;
    report->nanoseconds = clock_monotonic_ns() - start_ns;
    verify_lists();
    if (!err) {
        verify_list(&hidden);
    }
}

/* They go before what the built-in collection left in the oldest generation, as if they had
   never been away. CPython's count of old objects, which it set to what it met, is put right. */
static void
show_survivors(struct _gc_runtime_state *gc)
{
    PyGC_Head *oldest = cpy_gc_generation(gc, CPY_GENERATIONS - 1);
    PyGC_Head shown;
    cpy_gc_list_init(&shown);
    cpy_gc_splice(oldest, &shown);
    cpy_gc_splice(&hidden, oldest);
    cpy_gc_splice(&shown, oldest);
    hidden = (PyGC_Head){0};
    gc->long_lived_total += (Py_ssize_t)hidden_objects;
}

void
hide_end(void)
{
    show_survivors(cpy_gc_state());
    verify_lists();
}

bool
hide_is_active(void)
{
    return hidden._gc_next != 0;
}

/* Runs in the child of a fork. Another thread may fork while a finalizer of the garbage runs: then
   the collecting thread does not exist in the child, and no other thread would show the survivors.
   As with CPython's own collector, nothing is ever collected in such a child, since the heads of
   the lists that hold the garbage lie on the stack of the thread that is gone. */
static void
end_in_child(void)
{
    if (hide_is_active() && !pthread_equal(collecting_thread, pthread_self())) {
        show_survivors(collecting_state);
    }
}

int
hide_init(void)
{
    static bool shows_in_children; /* for good: such a handler cannot be taken back */
    if (class_traverse != NULL) {
        return 0;
    }
    /* not reached: the C library has room for the first 48 */
    if (!shows_in_children && pthread_atfork(NULL, NULL, end_in_child) != 0) {
        PyErr_NoMemory(); /* all that can go wrong, says pthread_atfork(3) */
        return -1;
    }
    shows_in_children = true;
    modules = Py_NewRef(PyImport_GetModuleDict());
    class_traverse = cpy_find_class_traverse();
    return class_traverse == NULL ? -1 : 0;
}

void
hide_forget(void)
{
    hidden = (PyGC_Head){0};
    hidden_objects = 0;
    collecting_state = NULL;
    class_traverse = NULL;
    modules = NULL;
}

#endif
