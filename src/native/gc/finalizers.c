/* Owns an entry of sys.modules that is not a module: a capsule. The interpreter lets go of it after all
 * modules, and so calls on_modules_gone().
 */
#include "finalizers.h"

#ifndef CPY_UNSUPPORTED

#include "../cpython/ends.h"
#include "../cpython/main.h"
#include "../process/scratch.h"
#include "mark.h"

#include <errno.h>

/* Besides __main__ hardly any module holds an object with an end and no function. */
#define DYING_MODULES_MAX 16u

#define HELD_COUNT (INT32_MAX / 2)

/* --- Modules that nothing refers to ------------------------------------------------------ */

typedef struct {
    PyObject *module, *dict;
    Py_ssize_t to_module, to_dict; /* references */
} dying_module;

/* Borrowed: all are immortal. In the order of sys.modules. */
static struct {
    dying_module items[DYING_MODULES_MAX];
    size_t count;
} dying;

static PyObject *sys_dict; /* borrowed: the interpreter lets go of it after its modules. Or NULL */

static bool
has_finalizer(PyObject *op)
{
    return Py_TYPE(op)->tp_finalize != NULL && !cpy_is_immortal(op);
}

static void
note_dying_modules(PyObject *modules)
{
    PyObject *name, *module, *key, *value;
    Py_ssize_t at = 0;
    dying.count = 0;
    while (PyDict_Next(modules, &at, &name, &module) && dying.count < DYING_MODULES_MAX) {
        if (!PyModule_Check(module) || !cpy_is_immortal(module)) {
            continue;
        }
        PyObject *dict = PyModule_GetDict(module);
        Py_ssize_t in_dict = 0;
        while (PyDict_Next(dict, &in_dict, &key, &value)) {
            if (has_finalizer(value)) {
                dying.items[dying.count++] = (dying_module){.module = module, .dict = dict};
                break;
            }
        }
    }
}

static int
count_reference(PyObject *op, void *Py_UNUSED(arg))
{
    for (size_t i = 0; i < dying.count; i++) {
        dying.items[i].to_module += op == dying.items[i].module;
        dying.items[i].to_dict += op == dying.items[i].dict;
    }
    return 0;
}

static int
discount_module(PyObject *op, void *Py_UNUSED(arg))
{
    for (size_t i = 0; i < dying.count; i++) {
        dying.items[i].to_module -= op == dying.items[i].module;
    }
    return 0;
}

/* The function that runs the code of a module or a class goes with the call. One that was running during
   the seal is immortal. */
static bool
is_run_once(PyObject *op)
{
    return PyFunction_Check(op)
           && !(((PyCodeObject *)PyFunction_GET_CODE(op))->co_flags & CO_OPTIMIZED);
}

static int
count_references(PyObject *op, void *Py_UNUSED(arg))
{
    bool counts = cpy_is_container(op) && !is_run_once(op);
    return counts ? Py_TYPE(op)->tp_traverse(op, count_reference, NULL) : 0;
}

/* Empty modules that are freed: a module ends with its dictionary. */
static void
empty_dying_modules(void)
{
    if (dying.count) {
        (void)cpy_gc_visit_all(count_references, NULL);
    }
    for (size_t i = 0; i < dying.count; i++) {
        if (dying.items[i].to_module == 0 && dying.items[i].to_dict == 1) {
            (void)PyDict_Type.tp_traverse(dying.items[i].dict, discount_module, NULL);
            PyDict_Clear(dying.items[i].dict);
        }
    }
}

/* --- What a collection would find -------------------------------------------------------- */

/* Mortal objects are noted, those that are held are marked. */
typedef struct {
    mark_bits bits;
    scratch_stack mortal; /* in the order in which a full collection meets them */
    int32_t *counts;      /* by rank: references that no object accounts for */
} end_search;

static int
note_mortal(PyObject *op, void *arg)
{
    end_search *search = arg;
    if (cpy_is_immortal(op)) {
        return 0;
    }
    mark_bits_leaf *leaf = mark_bits_leaf_for(&search->bits, op);
    if (leaf == NULL) {
        return ENOMEM;
    }
    leaf->noted[mark_bits_word_index(op)] |= mark_bits_mask(op);
    mark_bits_touch(leaf, mark_bits_word_index(op));
    return scratch_stack_push(&search->mortal, op);
}

static int
note_all_mortal(end_search *search)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    PyGC_Head *lists[] = {cpy_gc_permanent(gc), cpy_gc_generation(gc, 2), cpy_gc_generation(gc, 0),
                          cpy_gc_generation(gc, 1)}; /* as a full collection joins them */
    int err = 0;
    for (size_t i = 0; !err && i < Py_ARRAY_LENGTH(lists); i++) {
        err = cpy_gc_list_visit(lists[i], note_mortal, search);
    }
    return err;
}

static int
subtract_reference(PyObject *op, void *arg)
{
    end_search *search = arg;
    if (mark_bits_is_noted(&search->bits, op)) {
        search->counts[mark_bits_rank_of(&search->bits, op)]--;
    }
    return 0;
}

static int
subtract_references(PyObject *op, void *search)
{
    return cpy_is_container(op) ? Py_TYPE(op)->tp_traverse(op, subtract_reference, search) : 0;
}

/* Returns 0 or ENOMEM. */
static int
mark_held(end_search *search)
{
    mark_walk walk = {.bits = &search->bits};
    for (size_t i = 0; i < search->mortal.count; i++) {
        PyObject *op = search->mortal.items[i];
        Py_ssize_t count = cpy_is_container(op) ? Py_REFCNT(op) : HELD_COUNT;
        search->counts[mark_bits_rank_of(&search->bits, op)] = (int32_t)Py_MIN(count, INT32_MAX);
    }
    (void)cpy_gc_visit_all(subtract_references, search);
    for (size_t i = 0; i < search->mortal.count; i++) {
        if (search->counts[mark_bits_rank_of(&search->bits, search->mortal.items[i])] > 0) {
            mark_add_noted(&walk, search->mortal.items[i]);
        }
    }
    int err = mark_among_noted(&walk);
    mark_release(&walk);
    return err;
}

/* Returns 0 or ENOMEM. */
static int
find_garbage(end_search *search)
{
    int err = note_all_mortal(search);
    size_t bytes = search->mortal.count * sizeof *search->counts;
    if (err || (err = mark_bits_rank(&search->bits)) != 0
        || (err = scratch_map((void **)&search->counts, bytes)) != 0) {
        return err;
    }
    err = mark_held(search);
    scratch_unmap(search->counts, bytes);
    return err;
}

static bool
is_garbage(end_search *search, PyObject *op)
{
    return mark_bits_is_noted(&search->bits, op) && !mark_bits_is_marked(&search->bits, op);
}

/* --- Finalizing it ----------------------------------------------------------------------- */

/* Leave garbage with an end alone on the stack, and own it. */
static void
keep_what_ends(end_search *search)
{
    size_t kept = 0;
    for (size_t i = 0; i < search->mortal.count; i++) {
        PyObject *op = search->mortal.items[i];
        if (is_garbage(search, op) && (has_finalizer(op) || cpy_weakrefs(op) != NULL)) {
            search->mortal.items[kept++] = Py_NewRef(op);
        }
    }
    search->mortal.count = kept;
}

/* A collection does so first: no finalizer reaches garbage by a weak reference, and the callback of one
   that is garbage itself is not called. */
static void
clear_weak_references(end_search *search, PyObject *op)
{
    for (PyWeakReference *ref = cpy_weakrefs(op), *next; ref != NULL; ref = next) {
        next = ref->wr_next;
        /* not reached: CPython 3.15 */
        if (CPY_FINALIZERS_SEE_WEAK_REFERENCES && ref->wr_callback == NULL) {
            continue;
        }
        if (cpy_is_immortal((PyObject *)ref) || is_garbage(search, (PyObject *)ref)) {
            _PyWeakref_ClearRef(ref);
        }
    }
}

static void
finalize(end_search *search)
{
    keep_what_ends(search);
    for (size_t i = 0; i < search->mortal.count; i++) {
        clear_weak_references(search, search->mortal.items[i]);
    }
    for (size_t i = 0; i < search->mortal.count; i++) {
        PyObject_CallFinalizer(search->mortal.items[i]);
    }
    for (size_t i = 0; i < search->mortal.count; i++) {
        Py_DECREF((PyObject *)search->mortal.items[i]);
    }
}

/* New list, or NULL with an exception set. */
static PyObject *
standard_streams(void)
{
    static const char *const names[] = {"__stdin__", "__stdout__", "__stderr__",
                                        "stdin",     "stdout",     "stderr"};
    PyObject *streams = PyList_New(0);
    for (size_t i = 0; streams != NULL && i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *stream = sys_dict != NULL ? cpy_dict_get_ascii(sys_dict, names[i])
                                            : PySys_GetObject(names[i]); /* borrowed */
        if (stream != NULL && PyList_Append(streams, stream) < 0) {
            Py_CLEAR(streams);
        }
    }
    return streams;
}

static void on_modules_gone(PyObject *capsule);

static int
wait_for_end(PyObject *modules)
{
    PyObject *capsule = PyCapsule_New(modules, NULL, on_modules_gone);
    int err = capsule == NULL ? -1 : PyDict_SetItemString(modules, "pasture.end", capsule);
    Py_XDECREF(capsule);
    return err;
}

static bool has_come_again;

/* A finalizer took the capsule out, before the interpreter empties its modules. Once: it may take all that
   it finds. */
static void
come_again(PyObject *modules)
{
    if (!has_come_again && wait_for_end(modules) < 0) {
        PyErr_Clear();
    }
    has_come_again = true;
}

/* The interpreter writes to its streams until it ends: they are held. Without memory all is left to it. */
static void
finalize_garbage(void)
{
    PyObject *streams = standard_streams();
    end_search search = {0};
    if (streams != NULL && mark_bits_init(&search.bits) == 0) {
        if (find_garbage(&search) == 0) {
            finalize(&search);
        }
        mark_bits_release(&search.bits);
    }
    scratch_stack_release(&search.mortal);
    Py_XDECREF(streams);
}

/* Where other code took the capsule out of sys.modules all is left to the interpreter. */
static void
on_modules_gone(PyObject *capsule)
{
    PyObject *modules = PyCapsule_GetPointer(capsule, NULL); /* borrowed */
    if (!cpy_is_finalizing() || !cpy_is_only_interpreter()) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyDict_GET_SIZE(modules) != 0 || cpy_gc_state()->collecting) {
        come_again(modules);
        PyErr_Restore(type, value, traceback);
        return;
    }
    empty_dying_modules();
    finalize_garbage();
    PyErr_Restore(type, value, traceback);
}

/* The dictionary of the module that the interpreter itself goes by, or NULL where a program has put others
   in their places. */
static PyObject *
find_sys_dict(PyObject *modules)
{
    PyObject *dict = cpy_imported_dict(modules, "sys");
    return dict != NULL && cpy_dict_get_ascii(dict, "modules") == modules ? dict : NULL;
}

int
finalizers_arm(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    if (layout_require(LAYOUT_COLLECTOR) < 0) {
        return -1;
    }
    note_dying_modules(modules);
    sys_dict = find_sys_dict(modules);
    has_come_again = false;
    return wait_for_end(modules);
}

int
finalizers_run(void)
{
    if (layout_require(LAYOUT_COLLECTOR) < 0 || layout_require(LAYOUT_ROOTS) < 0) {
        return -1;
    }
    struct _PyInterpreterFrame *hidden = cpy_hide_frames();
    finalize_garbage();
    PyErr_Clear();
    cpy_show_frames(hidden);
    return 0;
}

void
finalizers_forget(void)
{
    dying.count = 0;
    sys_dict = NULL;
}

#endif
