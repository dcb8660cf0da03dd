#include "dead.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

#include "../gc/mark.h"
#include "../gc/unreachable.h"
#include "referents.h"
#include "sealed.h"
#include "types.h"

typedef struct {
    mark_bits bits;
    mark_walk walk;
    unreachable_set unreached;
    type_counts *counts;
} dead_search;

static int
add_root(PyObject *op, void *arg)
{
    dead_search *search = arg;
    if (mark_bits_is_marked(&search->bits, op)) {
        return 0;
    }
    int err = mark_bits_mark(&search->bits, op);
    return err ? err : scratch_stack_push(&search->walk.pending, op);
}

/* References outside of a type's traversal: the list of subclasses, which types that are built in have
   elsewhere, and the attributes of a static type. */
static int
add_type(PyTypeObject *type, void *search)
{
    bool has_subclasses = (uintptr_t)type->tp_subclasses > UINT16_MAX;
    int err = has_subclasses ? add_root((PyObject *)type->tp_subclasses, search) : 0;
    if (!err && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        PyObject *attributes = cpy_type_dict(type);
        err = attributes != NULL ? add_root(attributes, search) : 0;
        Py_XDECREF(attributes);
    }
    return err;
}

/* The interpreter's: each string under itself. */
static bool
is_table_of_interned(PyObject *op)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    return PyDict_CheckExact(op) && PyDict_Next(op, &at, &key, &value) && key == value
           && PyUnicode_CheckExact(key) && PyUnicode_CHECK_INTERNED(key);
}

static int
count(PyObject *op, void *arg)
{
    dead_search *search = arg;
    if (mark_bits_is_marked(&search->bits, op)) {
        return 0;
    }
    if (cpy_is_immortal(op)) {
        type_counts_add(search->counts, Py_TYPE(op), op);
    }
    return add_root(op, search);
}

/* The unreached objects, and those in no list that they alone lead to. Returns 0 or ENOMEM. */
static int
count_unreached(dead_search *search)
{
    int err = 0;
    for (size_t i = 0; i < search->unreached.objects.count && !err; i++) {
        PyObject *op = search->unreached.objects.items[i];
        err = is_table_of_interned(op) ? 0 : count(op, search);
        while (search->walk.pending.count && !err) {
            op = scratch_stack_pop(&search->walk.pending);
            err = referents_may_exist(op) ? referents_visit(op, count, search) : 0;
        }
    }
    return err;
}

/* Returns 0 or ENOMEM. */
static int
find(dead_search *search, PyObject *types)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    unreachable_lists lists = {.heads = {cpy_gc_permanent(gc)}, .count = 1};
    int err = types_each(types, add_type, search);
    for (int i = 0; i < CPY_GENERATIONS && !err; i++) {
        lists.heads[lists.count++] = cpy_gc_generation(gc, i);
        err = cpy_gc_list_visit(cpy_gc_generation(gc, i), add_root, search);
    }
    err = err ? err : mark_from_roots(&search->walk, NULL);
    err =
        err ? err
            : unreachable_find(&search->unreached, &search->bits, &lists, &search->walk.unaligned);
    return err ? err : count_unreached(search);
}

int
dead_find(type_counts *counts)
{
    dead_search search = {.counts = counts};
    if (sealed_end() == cpy_gc_permanent(cpy_gc_state())) {
        return 0;
    }
    search.walk.class_traverse = cpy_find_class_traverse();
    PyObject *types = search.walk.class_traverse != NULL ? types_all() : NULL;
    if (types == NULL) {
        return -1;
    }
    search.walk.bits = &search.bits;
    search.walk.modules = PyImport_GetModuleDict();
    int err = mark_bits_init(&search.bits);
    if (!err) {
        err = find(&search, types);
        mark_release(&search.walk);
        unreachable_release(&search.unreached);
        mark_bits_release(&search.bits);
    }
    Py_DECREF(types);
    if (err) {
        (void)PyErr_NoMemory();
    }
    return err ? -1 : 0;
}

#endif
#endif
