#include "dead.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

#include "../gc/mark_bits.h"
#include "../process/scratch.h"
#include "referents.h"
#include "sealed.h"
#include "types.h"

typedef struct {
    mark_bits met;
    scratch_stack pending; /* met, what they refer to is still to be met */
    dead_account *account;
    bool is_dead; /* what is met from now on */
} dead_walk;

static int
meet(PyObject *op, void *arg)
{
    dead_walk *walk = arg;
    if (mark_bits_is_marked(&walk->met, op)) {
        return 0;
    }
    int err = mark_bits_mark(&walk->met, op);
    if (!err && cpy_is_immortal(op)) {
        walk->account->sealed_bytes += type_counts_bytes_of(op);
        if (walk->is_dead) {
            type_counts_add(&walk->account->dead, Py_TYPE(op), op);
        }
    }
    return err ? err : scratch_stack_push(&walk->pending, op);
}

/* Types that are built in have a number there. */
static bool
has_subclasses(PyTypeObject *type)
{
    return (uintptr_t)type->tp_subclasses > UINT16_MAX;
}

static int
follow(dead_walk *walk)
{
    int err = 0;
    while (!err && walk->pending.count) {
        PyObject *op = scratch_stack_pop(&walk->pending);
        err = meet((PyObject *)Py_TYPE(op), walk);
        if (!err && PyType_Check(op) && has_subclasses((PyTypeObject *)op)) {
            err = meet(((PyTypeObject *)op)->tp_subclasses, walk);
        }
        if (!err && referents_may_exist(op)) {
            err = referents_visit(op, meet, walk);
        }
    }
    return err;
}

static int
meet_static_type(PyTypeObject *type, void *walk)
{
    return type->tp_flags & Py_TPFLAGS_HEAPTYPE ? 0 : meet((PyObject *)type, walk);
}

static int
follow_mortal(PyObject *op, void *walk)
{
    int err = cpy_is_immortal(op) ? 0 : meet(op, walk);
    return err ? err : follow(walk);
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
follow_any(PyObject *op, void *walk)
{
    int err = is_table_of_interned(op) ? 0 : meet(op, walk);
    return err ? err : follow(walk);
}

static int
find_roots(PyObject *op, void *arg)
{
    int *err = ((void **)arg)[1];
    *err = *err ? *err : meet(op, ((void **)arg)[0]);
    return *err;
}

/* Returns 0 or errno. */
static int
walk_all(dead_walk *walk, PyObject *types)
{
    int err = 0;
    cpy_roots_visit(PyImport_GetModuleDict(), find_roots, (void *[]){walk, &err});
    err = err ? err : types_each(types, meet_static_type, walk);
    err = err ? err : follow(walk);
    err = err ? err : cpy_gc_visit_all(follow_mortal, walk);
    walk->is_dead = true;
    return err ? err : cpy_gc_visit_all(follow_any, walk);
}

int
dead_find(dead_account *account)
{
    if (sealed_end() == cpy_gc_permanent(cpy_gc_state())) {
        return 0;
    }
    PyObject *types = types_all();
    if (types == NULL) {
        return -1;
    }
    dead_walk walk = {.account = account};
    int err = mark_bits_init(&walk.met);
    if (!err) {
        err = walk_all(&walk, types);
        mark_bits_release(&walk.met);
    }
    scratch_stack_release(&walk.pending);
    Py_DECREF(types);
    if (err) {
        (void)PyErr_NoMemory();
    }
    return err ? -1 : 0;
}

#endif
#endif
