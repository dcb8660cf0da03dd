/* Which objects are garbage, by plain reachability, to compare the collector with.
 *
 * Without any of the collector's means: a hash table of all objects in place of bitmaps and ranks,
 * and no known roots.
 */
#include "verify.h"

#if defined(PASTURE_CHECK) && !defined(CPY_UNSUPPORTED)

#include "../gc/unreachable.h"

#include <sys/mman.h>

#define MAX_OBJECTS 300000u /* larger heaps are not checked */

#define HELD (PY_SSIZE_T_MAX / 4) /* from outside, however many references there are within */

typedef struct {
    PyObject *object;             /* or NULL: the slot is free */
    Py_ssize_t from_outside : 63; /* references that no object of the model has */
    size_t alive : 1;
} entry;

typedef struct {
    entry *slots;      /* a hash table by granule, at least half of it free */
    size_t slot_count; /* a power of two */
    entry **pending;
    size_t pending_count;
} model;

/* The slot of the object that starts in the granule of `op`, or a free one if there is none. */
static entry *
slot_for(model *model, PyObject *op)
{
    uintptr_t granule = (uintptr_t)op >> MARK_BITS_GRANULE_LOG2;
    uint64_t hash = granule * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t at = (size_t)(hash >> 32);; at++) {
        entry *slot = &model->slots[at & (model->slot_count - 1)];
        if (slot->object == NULL || (uintptr_t)slot->object >> MARK_BITS_GRANULE_LOG2 == granule) {
            return slot;
        }
    }
}

static entry *
find(model *model, PyObject *op)
{
    entry *slot = slot_for(model, op);
    return slot->object == op ? slot : NULL;
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

/* No two objects start within one granule, which the bitmaps rest on: see mark_bits.h. */
static void
add(model *model, PyObject *op)
{
    bool held = cpy_is_immortal(op) || !PyObject_IS_GC(op);
    entry *slot = slot_for(model, op);
    if (slot->object != NULL) {
        Py_FatalError("pasture: two objects start within the same 16 bytes");
    }
    *slot = (entry){op, held ? HELD : Py_REFCNT(op), false};
}

static size_t
count_list(PyGC_Head *list)
{
    size_t count = 0;
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list; gc = cpy_gc_next(gc)) {
        count++;
    }
    return count;
}

static void
add_list(model *model, PyGC_Head *list)
{
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list; gc = cpy_gc_next(gc)) {
        add(model, cpy_gc_object(gc));
    }
}

/* Marks alive what is held from outside, and what that reaches. */
static void
find_alive(model *model)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        PyObject *op = model->slots[i].object;
        if (op != NULL) {
            (void)Py_TYPE(op)->tp_traverse(op, visit_subtract, model);
        }
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        if (model->slots[i].object != NULL && model->slots[i].from_outside > 0) {
            (void)visit_alive(model->slots[i].object, model);
        }
    }
    while (model->pending_count) {
        PyObject *op = model->pending[--model->pending_count]->object;
        (void)Py_TYPE(op)->tp_traverse(op, visit_alive, model);
    }
}

static void
compare(model *model, const mark_bits *bits)
{
    find_alive(model);
    for (size_t i = 0; i < model->slot_count; i++) {
        entry *entry = &model->slots[i];
        if (entry->object != NULL && entry->alive == unreachable_is_garbage(bits, entry->object)) {
            Py_FatalError(entry->alive ? "pasture: a live object is taken for garbage"
                                       : "pasture: garbage is taken for alive");
        }
    }
}

void
verify_garbage(const mark_bits *bits, bool include_frozen)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    PyGC_Head *lists[CPY_GENERATIONS + 1];
    int list_count = 0;
    for (int i = 0; i < CPY_GENERATIONS; i++) {
        lists[list_count++] = cpy_gc_generation(gc, i);
    }
    if (include_frozen) {
        lists[list_count++] = cpy_gc_permanent(gc);
    }
    size_t count = 0;
    for (int i = 0; i < list_count; i++) {
        count += count_list(lists[i]);
    }
    if (count > MAX_OBJECTS) {
        return;
    }
    model model = {.slot_count = 1024};
    while (model.slot_count < 2 * count) {
        model.slot_count *= 2;
    }
    /* Not from malloc, whose heap would stay larger than before. */
    size_t slots_bytes = model.slot_count * sizeof *model.slots;
    size_t bytes = slots_bytes + count * sizeof *model.pending;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return; /* no memory to compare with: under a limit of a test */
    }
    model.slots = (entry *)memory;
    model.pending = (entry **)(memory + slots_bytes);
    for (int i = 0; i < list_count; i++) {
        add_list(&model, lists[i]);
    }
    compare(&model, bits);
    (void)munmap(memory, bytes);
}

#endif
