/* Which objects are garbage, by plain reachability, to compare the collector with.
 *
 * Slow on purpose, and without any of the collector's means: a sorted array with binary search in
 * place of bitmaps and ranks, and no known roots.
 */
#include "verify.h"

#if defined(PASTURE_CHECK) && !defined(CPY_UNSUPPORTED)

#include "../gc/unreachable.h"

#include <stdlib.h>

#define MAX_OBJECTS 300000u /* larger heaps are not checked */

typedef struct {
    PyObject *object;
    Py_ssize_t from_outside;
    bool alive;
} entry;

typedef struct {
    entry *entries;
    size_t count;
    entry **pending;
    size_t pending_count;
} model;

static int
compare(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const entry *)a)->object, y = (uintptr_t)((const entry *)b)->object;
    return (x > y) - (x < y);
}

static entry *
find(model *model, PyObject *op)
{
    entry key = {.object = op};
    return bsearch(&key, model->entries, model->count, sizeof key, compare);
}

static int
visit_subtract(PyObject *op, void *arg)
{
    entry *entry = find(arg, op);
    if (entry != NULL) {
        entry->from_outside--;
    }
    return 0;
}

static int
visit_alive(PyObject *op, void *arg)
{
    model *model = arg;
    entry *entry = find(model, op);
    if (entry != NULL && !entry->alive) {
        entry->alive = true;
        model->pending[model->pending_count++] = entry;
    }
    return 0;
}

static void
add_list(model *model, PyGC_Head *list)
{
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list; gc = cpy_gc_next(gc)) {
        if (model->count <= MAX_OBJECTS) {
            PyObject *op = cpy_gc_object(gc);
            bool held = cpy_is_immortal(op) || !PyObject_IS_GC(op);
            Py_ssize_t count = held ? PY_SSIZE_T_MAX : Py_REFCNT(op);
            model->entries[model->count++] = (entry){op, count, false};
        }
    }
}

/* What the bitmaps rest on: see mark_bits.h. */
static void
check_granules(const model *model)
{
    for (size_t i = 1; i < model->count; i++) {
        uintptr_t first = (uintptr_t)model->entries[i - 1].object;
        uintptr_t second = (uintptr_t)model->entries[i].object;
        if (first >> MARK_BITS_GRANULE_LOG2 == second >> MARK_BITS_GRANULE_LOG2) {
            Py_FatalError("pasture: two objects start within the same 16 bytes");
        }
    }
}

/* Marks alive what is held from outside, and what that reaches. */
static void
find_alive(model *model)
{
    qsort(model->entries, model->count, sizeof *model->entries, compare);
    check_granules(model);
    for (size_t i = 0; i < model->count; i++) {
        PyObject *op = model->entries[i].object;
        (void)Py_TYPE(op)->tp_traverse(op, visit_subtract, model);
    }
    for (size_t i = 0; i < model->count; i++) {
        if (model->entries[i].from_outside > 0) {
            (void)visit_alive(model->entries[i].object, model);
        }
    }
    while (model->pending_count) {
        PyObject *op = model->pending[--model->pending_count]->object;
        (void)Py_TYPE(op)->tp_traverse(op, visit_alive, model);
    }
}

void
verify_garbage(const mark_bits *bits, bool include_frozen)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    model model = {.entries = malloc((MAX_OBJECTS + 1) * sizeof *model.entries),
                   .pending = malloc((MAX_OBJECTS + 1) * sizeof *model.pending)};
    if (model.entries == NULL || model.pending == NULL) {
        free(model.entries); /* no memory to compare with: under a limit of a test */
        free(model.pending);
        return;
    }
    for (int i = 0; i < CPY_GENERATIONS; i++) {
        add_list(&model, cpy_gc_generation(gc, i));
    }
    if (include_frozen) {
        add_list(&model, cpy_gc_permanent(gc));
    }
    if (model.count <= MAX_OBJECTS) {
        find_alive(&model);
        for (size_t i = 0; i < model.count; i++) {
            entry *entry = &model.entries[i];
            if (entry->alive == unreachable_is_garbage(bits, entry->object)) {
                Py_FatalError(entry->alive ? "pasture: a live object is taken for garbage"
                                           : "pasture: garbage is taken for alive");
            }
        }
    }
    free(model.entries);
    free(model.pending);
}

#endif
