/* Copies hot code and makes functions, and code that contains it, refer to the copies.
 *
 * While code is gathered, an original carries the address of its copy in its note (cpy_code_note).
 * Nothing else runs meanwhile, and all notes are emptied at the end. Copies lie in memory that is
 * mapped for them and never freed.
 *
 * Invariant: an original whose note is set is on the stack of originals, which holds a
 * reference to it.
 */
#define _GNU_SOURCE
#include "hotcode.h"

#ifndef CPY_UNSUPPORTED

#include "../gc/mark_bits.h"
#include "sealed.h"
#include "specialize.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COPY_ALIGNMENT ((size_t)16)

typedef int (*code_action)(PyCodeObject *code, void *arg);

/* A pass over code and what is nested in it. Each code object has one turn, however many lead to it;
   the C stack does not grow with the depth. All zero, the pass has seen nothing. */
typedef struct {
    mark_bits seen;
    scratch_stack pending;
    code_action action;
    void *arg;
} code_pass;

static size_t
copy_bytes(PyCodeObject *code)
{
    return (cpy_code_bytes(code) + COPY_ALIGNMENT - 1) & ~(COPY_ALIGNMENT - 1);
}

static int
push_nested(code_pass *pass, PyCodeObject *code)
{
    int err = 0;
    for (Py_ssize_t i = PyTuple_GET_SIZE(code->co_consts); i > 0 && !err; i--) {
        PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i - 1);
        if (PyCode_Check(constant) && !mark_bits_is_marked(&pass->seen, constant)) {
            err = scratch_stack_push(&pass->pending, constant);
        }
    }
    return err;
}

/* Apply the action to the code and to all code among its constants, to any depth, where it has not
   been seen. Returns 0, ENOMEM, or what an action returned. */
static int
each_nested(code_pass *pass, PyCodeObject *code)
{
    int result = pass->seen.tables == NULL ? mark_bits_init(&pass->seen) : 0;
    result = result ? result : scratch_stack_push(&pass->pending, code);
    while (!result && pass->pending.count) {
        PyCodeObject *next = scratch_stack_pop(&pass->pending);
        if (!mark_bits_is_marked(&pass->seen, next)) {
            result = mark_bits_mark(&pass->seen, next);
            result = result ? result : pass->action(next, pass->arg);
            result = result ? result : push_nested(pass, next);
        }
    }
    return result;
}

static void
end_pass(code_pass *pass)
{
    if (pass->seen.tables != NULL) {
        mark_bits_release(&pass->seen);
    }
    scratch_stack_release(&pass->pending);
}

/* The code of a function. */
static PyCodeObject *
code_of(PyObject *function)
{
    return (PyCodeObject *)((PyFunctionObject *)function)->func_code;
}

/* --- Forget ------------------------------------------------------------------------- */

static int
forget_code(PyCodeObject *code, void *Py_UNUSED(arg))
{
    cpy_code_forget_run(code);
    return 0;
}

/* All functions there are, borrowed: those of the first half of a list, and those of the other one from
   its end on. */
typedef struct {
    scratch_stack first, last;
} functions;

static int
push_function(PyObject *op, void *all)
{
    return PyFunction_Check(op) ? scratch_stack_push(&((functions *)all)->first, op) : 0;
}

static int
push_function_from_end(PyObject *op, void *all)
{
    return PyFunction_Check(op) ? scratch_stack_push(&((functions *)all)->last, op) : 0;
}

/* The part of the list of frozen objects that an earlier seal has walked along: its functions are known. */
static PyGC_Head *
take_known(functions *all, int *err)
{
    PyGC_Head *list = cpy_gc_permanent(cpy_gc_state());
#if CPY_HAS_IMMORTALITY
    PyGC_Head *end = sealed_end();
    const scratch_stack *known = sealed_functions();
    for (size_t i = 0; end != list && i < known->count && !*err; i++) {
        *err = scratch_stack_push(&all->first, known->items[i]);
    }
    return end;
#else
    return list;
#endif
}

/* Find the functions of all lists, in their order. Returns 0 or errno. */
static int
find_functions(functions *all)
{
    struct _gc_runtime_state *gc = cpy_gc_state();
    int err = 0;
    PyGC_Head *known = take_known(all, &err);
    for (int i = -1; i < CPY_GENERATIONS && !err; i++) {
        PyGC_Head *list = cpy_gc_list(gc, i), *start = i < 0 ? known : list;
        err = cpy_gc_list_visit_from_both_ends(start, list, push_function, push_function_from_end,
                                               all);
        while (!err && all->last.count) {
            err = scratch_stack_push(&all->first, scratch_stack_pop(&all->last));
        }
    }
    scratch_stack_release(&all->last);
    return err;
}

/* Apply the action to all code of functions. Returns as each_nested(). */
static int
each_code_of(const functions *all, code_action action, void *arg)
{
    code_pass pass = {.action = action, .arg = arg};
    int result = 0;
    for (size_t i = 0; i < all->first.count && !result; i++) {
        result = each_nested(&pass, code_of(all->first.items[i]));
    }
    end_pass(&pass);
    return result;
}

static int
each_code(code_action action, void *arg)
{
    functions all = {0};
    int result = find_functions(&all);
    result = result ? result : each_code_of(&all, action, arg);
    scratch_stack_release(&all.first);
    return result;
}

void
hotcode_forget(void)
{
    if (layout_has(LAYOUT_CODE)) {
        /* Without memory what ran stays known. */
        if (each_code(forget_code, NULL) == 0) {
            specialize_runs_are_forgotten();
        }
    }
}

/* --- Gather ------------------------------------------------------------------------- */

/* One round's memory: this, then the copies. It is never given back. */
typedef struct copied_round {
    const struct copied_round *before; /* of this process or one before it; NULL: none */
    size_t bytes;                      /* of the copies */
} copied_round;

static_assert(sizeof(copied_round) % COPY_ALIGNMENT == 0, "copies follow it");

static const copied_round *latest;

static bool
is_copy(PyCodeObject *code)
{
    const char *at = (const char *)code;
    for (const copied_round *each = latest; each != NULL; each = each->before) {
        const char *copies = (const char *)(each + 1);
        if (at >= copies && at < copies + each->bytes) {
            return true;
        }
    }
    return false;
}

/* Addresses of the code to copy next, ascending; empty: what ran. */
static scratch_stack chosen;

static int
compare_addresses(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    return (*a > *b) - (*a < *b);
}

/* An earlier seal may have made what it sealed look as if it ran. A process that is sealed on top of
   it, as a server out of an image, would copy all code that there is. */
static bool
is_hot(PyCodeObject *code)
{
    if (chosen.count == 0) {
        bool is_known = !specialize_hides_runs() || !cpy_is_immortal((PyObject *)code);
        return is_known && cpy_code_ran(code);
    }
    return bsearch(&code, chosen.items, chosen.count, sizeof(void *), compare_addresses) != NULL;
}

/* Whether code is to be copied and has not been. */
static bool
is_wanted(PyCodeObject *code)
{
    return cpy_code_is_movable(code) && is_hot(code) && !is_copy(code);
}

int
hotcode_choose(const void *const *addresses, size_t count)
{
    scratch_stack_release(&chosen);
    for (size_t i = 0; i < count; i++) {
        if (scratch_stack_push(&chosen, (void *)addresses[i])) {
            scratch_stack_release(&chosen);
            PyErr_NoMemory();
            return -1;
        }
    }
    if (count > 0) {
        qsort(chosen.items, count, sizeof(void *), compare_addresses);
    }
    return 0;
}

typedef struct {
    functions functions;
    scratch_stack codes;     /* theirs, and all that is nested in it, borrowed */
    scratch_stack originals; /* hot code, each with a reference */
    char *memory;            /* of the copies */
    size_t bytes;
} gathering;

/* Note code, and hold a reference to it where it has run and can be moved. Returns 0 or errno. */
static int
note_code(PyCodeObject *code, void *arg)
{
    gathering *all = arg;
    int err = scratch_stack_push(&all->codes, code);
    if (err || !is_wanted(code)) {
        return err;
    }
    err = scratch_stack_push(&all->originals, code);
    if (!err) {
        Py_INCREF(code);
        *cpy_code_note(code) = code; /* until there is a copy: itself */
        all->bytes += copy_bytes(code);
    }
    return err;
}

static int
take_reference(PyObject *op, void *Py_UNUSED(arg))
{
    Py_INCREF(op);
    return 0;
}

static int
push_if_hot(PyCodeObject *code, void *found)
{
    return is_wanted(code) ? scratch_stack_push(found, code) : 0;
}

int
hotcode_find(scratch_stack *found)
{
    if (layout_require(LAYOUT_CODE) < 0) {
        return -1;
    }
    if (each_code(push_if_hot, found)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
push_code(PyCodeObject *code, void *found)
{
    return scratch_stack_push(found, code);
}

int
hotcode_all(scratch_stack *found)
{
    if (layout_require(LAYOUT_CODE) < 0) {
        return -1;
    }
    if (each_code(push_code, found)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* The copy starts with a reference that is never released: its memory is not the
   allocator's. It is as mortal as its original, so that the walk that makes the heap
   immortal comes by and takes what it refers to along. */
static void
copy_code(PyCodeObject *original, PyCodeObject *copy)
{
    memcpy((void *)copy, original, cpy_code_bytes(original));
    cpy_code_detach_copy(copy);
    (void)cpy_code_visit(copy, take_reference, NULL);
    if (!cpy_is_immortal((PyObject *)copy)) {
        Py_SET_REFCNT((PyObject *)copy, 1);
    }
    *cpy_code_note(original) = copy;
}

/* Side by side, in the order in which they were found. */
static void
copy_originals(gathering *all)
{
    char *free_memory = all->memory;
    for (size_t i = 0; i < all->originals.count; i++) {
        PyCodeObject *original = all->originals.items[i];
        copy_code(original, (PyCodeObject *)free_memory);
        free_memory += copy_bytes(original);
    }
}

/* The copy of `op`, or NULL. A tool's data may be where a note would: only an address
   inside our memory is one of ours. */
static PyObject *
copy_of(const gathering *all, PyObject *op)
{
    char *note = PyCode_Check(op) ? *cpy_code_note((PyCodeObject *)op) : NULL;
    bool ours = (uintptr_t)note - (uintptr_t)all->memory < all->bytes;
    return ours ? (PyObject *)note : NULL;
}

/* The original lives on: the stack holds it. */
static void
redirect(const gathering *all, PyObject **place)
{
    PyObject *copy = copy_of(all, *place);
    if (copy != NULL) {
        Py_SETREF(*place, Py_NewRef(copy));
    }
}

/* Make functions, and code that has code among its constants, refer to the copies. A copy has its
   constants in common with its original. */
static void
redirect_all(const gathering *all)
{
    for (size_t i = 0; i < all->functions.first.count; i++) {
        redirect(all, &((PyFunctionObject *)all->functions.first.items[i])->func_code);
    }
    for (size_t i = 0; i < all->codes.count; i++) {
        PyObject *constants = ((PyCodeObject *)all->codes.items[i])->co_consts;
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(constants); j++) {
            redirect(all, &PyTuple_GET_ITEM(constants, j));
        }
    }
}

/* Empty all notes and let the originals go. */
static void
forget_originals(gathering *all)
{
    for (size_t i = 0; i < all->originals.count; i++) {
        *cpy_code_note(all->originals.items[i]) = NULL;
    }
    while (all->originals.count) { /* a second round: this may end their lives */
        Py_DECREF((PyObject *)scratch_stack_pop(&all->originals));
    }
    scratch_stack_release(&all->originals);
    scratch_stack_release(&all->functions.first);
    scratch_stack_release(&all->codes);
}

/* Memory for the copies, known as such from now on. Returns 0 or errno. */
static int
map_memory(gathering *all)
{
    size_t bytes = sizeof(copied_round) + all->bytes;
    copied_round *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return errno;
    }
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* a child shall copy one OS page at a time */
    *memory = (copied_round){latest, all->bytes};
    latest = memory;
    all->memory = (char *)(memory + 1);
    return 0;
}

static int
gather(gathering *all)
{
    int err = find_functions(&all->functions);
    err = err ? err : each_code_of(&all->functions, note_code, all);
    if (err || all->originals.count == 0) {
        return err;
    }
    err = map_memory(all);
    if (!err) {
        copy_originals(all);
        redirect_all(all);
    }
    return err;
}

int
hotcode_gather(hotcode_gathered *gathered)
{
    if (layout_require(LAYOUT_CODE) < 0) {
        return -1;
    }
    if (jit_makes_traces()) { /* not reached: a build that makes traces */
        PyErr_SetString(
            PyExc_NotImplementedError,
            "traces, which the JIT or the second tier of the interpreter compiles, hold "
            "addresses of code");
        return -1;
    }
    gathering all = {0};
    int err = gather(&all);
    if (!err) {
        *gathered = (hotcode_gathered){(Py_ssize_t)all.originals.count, all.bytes};
    }
    forget_originals(&all);
    scratch_stack_release(&chosen);
    if (err) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

#endif
