/* The invariants of the collector's lists, of containers and of code.
 *
 * Each fact is computed in another way than the code under test computes it: lists are walked here
 * link by link, and references are asked of tp_traverse.
 */
#include "verify.h"

#ifdef PASTURE_CHECK

#include "../seal/specialize.h"

static void
require(bool holds, const char *invariant)
{
    if (!holds) {
        Py_FatalError(invariant);
    }
}

static void
each_in(PyGC_Head *list, void (*check)(PyGC_Head *))
{
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list; gc = cpy_gc_next(gc)) {
        check(gc);
    }
}

static void
each_listed(void (*check)(PyGC_Head *))
{
    struct _gc_runtime_state *state = cpy_gc_state();
    for (int i = -1; i < CPY_GENERATIONS; i++) {
        each_in(cpy_gc_list(state, i), check);
    }
}

static void
check_links(PyGC_Head *gc)
{
    require(gc != NULL, "pasture: a collector list ends in NULL");
    require(cpy_gc_prev(cpy_gc_next(gc)) == gc, "pasture: broken links in a collector list");
    require(Py_TYPE(cpy_gc_object(gc)) != NULL, "pasture: a listed object has no type");
    require(PyType_HasFeature(Py_TYPE(cpy_gc_object(gc)), Py_TPFLAGS_HAVE_GC),
            "pasture: a listed object's type has no containers");
}

void
verify_heap_is_immortal(bool (*may_be_mortal)(PyObject *))
{
    verify_lists();
    struct _gc_runtime_state *state = cpy_gc_state();
    for (int i = -1; i < CPY_GENERATIONS; i++) {
        PyGC_Head *list = cpy_gc_list(state, i);
        for (PyGC_Head *gc = cpy_gc_next(list); gc != list; gc = cpy_gc_next(gc)) {
            PyObject *op = cpy_gc_object(gc);
            require(cpy_is_immortal(op) || may_be_mortal(op),
                    "pasture: a listed object is mortal after the walk");
        }
    }
}

void
verify_list(PyGC_Head *list)
{
    each_in(list, check_links);
}

void
verify_lists(void)
{
    each_listed(check_links);
}

/* References, whatever their order. */
typedef struct {
    size_t count;
    uintptr_t sum;
} total;

static int
add_reference(PyObject *op, void *arg)
{
    total *all = arg;
    all->count++;
    all->sum += (uintptr_t)op;
    return 0;
}

static bool
is_same(const total *a, const total *b)
{
    return a->count == b->count && a->sum == b->sum;
}

void
verify_references(PyObject *op, cpy_references references, PyObject *dict, PyObject *type)
{
    total visited = {0}, expected = {0}, values = {0};
    (void)Py_TYPE(op)->tp_traverse(op, add_reference, &visited);
    if (type != NULL) {
        (void)add_reference(type, &expected);
        (void)add_reference(type, &values);
    }
    if (dict != NULL) {
        (void)add_reference(dict, &expected);
        /* A dictionary that has been made for an instance visits the values, too: from 3.13.3 on
           they are left to it (gh-130327). */
        if (is_same(&expected, &visited)) {
            return;
        }
    }
    for (Py_ssize_t i = 0; i < references.count; i++) {
        PyObject *item = references.first[i * references.stride];
        if (item != NULL) {
            (void)add_reference(item, &expected);
            (void)(type != NULL ? add_reference(item, &values) : 0);
        }
    }
    /* Before, the instance visited the values in place of the dictionary, which visited nothing:
       what is marked is more than what is visited, and alive all the same. */
    bool has_values = dict != NULL || (PyDict_Check(op) && ((PyDictObject *)op)->ma_values != NULL);
    bool visits_less = Py_Version < 0x030D0300 && has_values && is_same(&values, &visited);
    require(is_same(&expected, &visited) || visits_less,
            "pasture: a container refers to other objects than its layout says");
}

static void
check_code(PyGC_Head *gc)
{
    PyObject *op = cpy_gc_object(gc);
    if (PyFunction_Check(op)) {
        PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)op)->func_code;
        Py_ssize_t found =
            cpy_is_immortal((PyObject *)code) ? specialize_count_mortal_loads(code) : 0;
        if (found < 0) {
            PyErr_Clear(); /* no memory to look */
        }
        require(found <= 0, "pasture: code of a sealed function counts its constants");
    }
}

void
verify_code_counts_no_constants(void)
{
    each_listed(check_code);
}

#endif
