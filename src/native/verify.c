#include "verify.h"

#ifdef PASTURE_CHECK

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
        each_in(i < 0 ? cpy_gc_permanent(state) : cpy_gc_generation(state, i), check);
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
        PyGC_Head *list = i < 0 ? cpy_gc_permanent(state) : cpy_gc_generation(state, i);
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

#endif
