/* Decides which objects stay mortal: those with a finalizer that matters, and their owners. Visits each
 * object once: tracked ones in list order, the rest when first referenced. Plain values are handed on.
 *
 * What refers to an object with an end is asked whether it owns it, in the same look. Owners of owners may
 * have had their turn by then: what refers to one that has its turn later, or waits itself, waits (order.h).
 * Where there are owners they are asked again, backwards and forwards by address, until a look finds none. A chain of owners is
 * found in one look if their addresses go up or down. In a graph whose parts refer to each other all of
 * it owns what one part holds. If that is too much, only owners within OWNER_LEVELS stay mortal.
 *
 * Bits: marked    its end matters
 *       noted     met: in no list and in `unlisted`, or a dictionary of a module, or it counts buffers
 *       waiting   of what C code may be filling: something refers to it
 */
#include "ends.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

#include "../gc/fetch.h"
#include "../gc/mark_bits.h"
#include "../gc/refcounts.h"
#include "../process/scratch.h"
#include "order.h"
#include "referents.h"
#include "type_ends.h"
#include "types.h"

#include <assert.h>
#include <datetime.h>

/* Types with less room hold no Py_buffer. */
#define BUFFER_HOLDER_MIN_BYTES ((Py_ssize_t)(sizeof(PyObject) + sizeof(Py_buffer)))

/* So much of an object without tp_traverse is searched for pointers. */
#define SEARCHED_MAX_BYTES 2048

/* Each takes about as long as to meet all. The first finds nearly all. */
#define OWNER_LOOKS_MAX 6

/* Owners are too many if they exceed all of these: this number, this share of the mortal objects,
   and this number for each object that has an end itself. */
#define OWNERS_ENOUGH 1000
#define OWNERS_SHARE 100
#define OWNERS_FOR_EACH 4

/* If there are too many, owners up to this many levels away are kept, and those of an unbranched
   chain that are further off. */
#define OWNER_LEVELS 3
#define CHAIN_LEVELS 10
#define CHAIN_MAX_REFERENCES 2

/* Types that were looked up, each in its place: objects that lie next to each other are of few types. */
#define LOOKED_UP_LOG2 8

static struct {
    mark_bits bits;
    scratch_stack unlisted; /* mortal objects in no list that may refer to others, or end */
    size_t reached;         /* of them: from objects, not from running calls alone */
    type_end looked_up[1 << LOOKED_UP_LOG2];
    PyObject *weakref_dict, *weakset_dict; /* borrowed; NULL if not imported */
    size_t met, found;                     /* mortal objects, and those of them that are kept */
    size_t foreign;                        /* of these: for the library alone that frees them */
    scratch_stack owners;                  /* that are kept */
    bool has_too_many;                     /* owners: not all are kept */
    bool has_buffers;                      /* an object that counts them was met */
    fetch_queue referents, referrers;      /* that will be met, and what refers to each */
    PyObject *referrer;                    /* whose turn it is; NULL: what is met has no owner */
    visitproc value;                       /* takes plain values that are mortal; or NULL */
    void *value_arg;
} ends;

/* A field of a type without tp_traverse: the base of numpy's arrays. Holds a reference to the type. */
static struct {
    PyTypeObject *type;
    size_t offset;
} owner;

static int
note(PyObject *op)
{
    mark_bits_leaf *leaf = mark_bits_leaf_for(&ends.bits, op);
    if (leaf == NULL) {
        return ENOMEM;
    }
    leaf->noted[mark_bits_word_index(op)] |= mark_bits_mask(op);
    return 0;
}

static int
note_as_held(PyObject *op)
{
    mark_bits_leaf *leaf = mark_bits_leaf_for(&ends.bits, op);
    if (leaf == NULL) {
        return ENOMEM;
    }
    leaf->waiting[mark_bits_word_index(op)] |= mark_bits_mask(op);
    return 0;
}

static bool
is_held(PyObject *op)
{
    mark_bits_leaf *leaf = mark_bits_find_leaf(&ends.bits, op);
    return leaf != NULL && (leaf->waiting[mark_bits_word_index(op)] & mark_bits_mask(op));
}

/* Whether nearly all objects are of such a type, which refers to nothing and has no end. */
static inline bool
is_plain_value(PyTypeObject *type)
{
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBytes_Type
           || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type;
}

static const type_end *
end_of_type(PyTypeObject *type)
{
    size_t at = ((uint64_t)(uintptr_t)type * 0x9E3779B97F4A7C15u) >> (64 - LOOKED_UP_LOG2);
    type_end *place = &ends.looked_up[at];
    if (place->type != type) {
        *place = type_ends_look_up(type);
    }
    return place;
}

/* Whether a function is to be had from its module under its name, for as long as that lives. */
static bool
is_anchored(PyObject *op)
{
    PyFunctionObject *func = (PyFunctionObject *)op;
    return PyFunction_Check(op) && PyUnicode_CheckExact(func->func_qualname)
           && PyUnicode_FindChar(func->func_qualname, '<', 0,
                                 PyUnicode_GET_LENGTH(func->func_qualname), 1)
                  == -1;
}

/* Whether a callback is one of weakref's own containers. A function written in C may be anything: the
   `append` of a list of what is gone. */
static bool
keeps_books(PyObject *callback)
{
    if (!PyFunction_Check(callback)) {
        return false;
    }
    PyObject *globals = ((PyFunctionObject *)callback)->func_globals;
    return globals == ends.weakref_dict || globals == ends.weakset_dict;
}

static bool
is_watched(PyObject *op)
{
    for (PyWeakReference *ref = cpy_weakrefs(op); ref != NULL; ref = ref->wr_next) {
        if (ref->wr_callback != NULL && !keeps_books(ref->wr_callback)) {
            return !is_anchored(op);
        }
    }
    return false;
}

static bool
is_capsule_to_destroy(PyObject *op)
{
    if (!PyCapsule_CheckExact(op)) {
        return false;
    }
    bool destroys = PyCapsule_GetDestructor(op) != NULL;
    PyErr_Clear(); /* of a capsule that holds nothing */
    return destroys;
}

static int
is_cleared_by_python(PyObject *op, void *type)
{
    return op != type && !is_plain_value(Py_TYPE(op)) && !type_ends_clears_in_c(op);
}

/* As above in the instance's dictionary, which looks like any other. */
static int
holds_cleared_by_python(PyObject *op, void *type)
{
    return is_cleared_by_python(op, type)
           || (PyDict_CheckExact(op) && referents_visit(op, is_cleared_by_python, type) != 0);
}

/* Precondition: `op` is mortal, and its type is not a plain container. */
static bool
shows_end(PyObject *op, const type_end *end)
{
    PyTypeObject *type = Py_TYPE(op);
    if (end->clears && referents_visit(op, holds_cleared_by_python, type) != 0) {
        return true;
    }
    return end->finalizes || end->closes || is_watched(op) || is_capsule_to_destroy(op);
}

static int
keep(PyObject *op)
{
    ends.found++;
    return mark_bits_mark(&ends.bits, op);
}

static int
keep_if_it_has_end(PyObject *op, void *Py_UNUSED(arg))
{
    if (cpy_is_immortal(op) || PyType_Check(op) || PyModule_Check(op)) {
        return 0;
    }
    if (type_ends_is_plain_container(Py_TYPE(op))) {
        return is_watched(op) ? keep(op) : 0;
    }
    const type_end *end = end_of_type(Py_TYPE(op));
    if (shows_end(op, end)) {
        return keep(op);
    }
    ends.foreign += end->foreign != NULL;
    return end->foreign != NULL ? keep(op) : 0;
}

static int
is_kept(PyObject *op, void *Py_UNUSED(arg))
{
    return mark_bits_is_marked(&ends.bits, op);
}

static bool can_end(PyObject *op);
static bool may_hold_buffer(PyObject *op);
static int keep_if_owner(PyObject *op, void *arg);
static int may_be_kept_later(PyObject *op, void *arg);

/* Objects outside of lists. A holder of a buffer may be younger than its object. */
static int
meet_unlisted(PyObject *op, bool has_turn, bool counts)
{
    if (mark_bits_is_noted(&ends.bits, op)) {
        return 0;
    }
    ends.has_buffers = ends.has_buffers || counts;
    int err = note(op);
    if (err || has_turn) {
        return err;
    }
    ends.met++;
    err = scratch_stack_push(&ends.unlisted, op);
    return err ? err : keep_if_it_has_end(op, NULL);
}

static int
meet(PyObject *op, PyObject *referrer)
{
    PyTypeObject *type = Py_TYPE(op);
    bool immortal = cpy_is_immortal(op);
    if (is_plain_value(type)) {
        return immortal || ends.value == NULL ? 0 : ends.value(op, ends.value_arg);
    }
    bool counts = cpy_type_counts_buffers(type);
    if (immortal && !counts) {
        return 0;
    }
    int err = cpy_may_be_filled(op) ? note_as_held(op) : 0;
    bool has_turn = immortal || cpy_gc_listed(op);
    if (!err && (!has_turn || counts)) {
        err = meet_unlisted(op, has_turn, counts);
    }
    if (err || referrer == NULL) {
        return err;
    }
    if (is_kept(op, NULL)) {
        return keep_if_owner(referrer, NULL);
    }
    if ((op > referrer || may_be_kept_later(op, NULL)) && can_end(op) && can_end(referrer)) {
        order_let_wait(referrer, true);
    }
    return 0;
}

/* Once its memory has arrived. */
static int
meet_soon(PyObject *op, void *Py_UNUSED(arg))
{
    __builtin_prefetch(op, 1);
    PyObject *arrived = fetch_exchange(&ends.referents, op);
    PyObject *referrer = fetch_exchange(&ends.referrers, ends.referrer);
    return arrived != NULL ? meet(arrived, referrer) : 0;
}

static int
meet_root(PyObject *op, void *Py_UNUSED(arg))
{
    return meet(op, NULL);
}

static int
meet_those_on_the_way(void)
{
    int err = 0;
    for (unsigned int i = 0; i < FETCH_LENGTH && !err; i++) {
        PyObject *arrived = fetch_exchange(&ends.referents, NULL);
        PyObject *referrer = fetch_exchange(&ends.referrers, NULL);
        err = arrived != NULL ? meet(arrived, referrer) : 0;
    }
    return err;
}

static int
meet_unlisted_referents(PyObject *op)
{
    ends.referrer = op;
    if (owner.type != NULL && PyType_IsSubtype(Py_TYPE(op), owner.type)) {
        PyObject *owned;
        memcpy(&owned, (char *)op + owner.offset, sizeof owned);
        int err = owned != NULL ? meet(owned, op) : 0;
        if (err) {
            return err;
        }
    }
    return referents_visit(op, meet_soon, NULL);
}

/* The dictionaries of modules and types are known before anything can make an owner of them. */
static int
look_at_listed(PyObject *op, void *Py_UNUSED(arg))
{
    if (PyModule_Check(op)) {
        return note(PyModule_GetDict(op));
    }
    if (PyType_Check(op)) {
        PyObject *dict = cpy_type_dict((PyTypeObject *)op);
        /* not reached: a type that is found is ready, and has one */
        int err = dict != NULL ? note(dict) : 0;
        Py_XDECREF(dict);
        return err;
    }
    return keep_if_it_has_end(op, NULL);
}

static int
meet_referents(PyObject *op, void *arg)
{
    if (PyModule_Check(op)) {
        cpy_module_assign_version(op);
    }
    ends.met += !cpy_is_immortal(op);
    ends.referrer = op;
    if (may_hold_buffer(op)) {
        order_let_wait(op, true);
    }
    return referents_visit(op, meet_soon, arg);
}

/* As above for objects that were sealed before what they refer to. */
static int
meet_new(PyObject *op, void *arg)
{
    return refcounts_is_watched(op) ? 0 : meet_soon(op, arg);
}

static int
meet_referents_of_sealed(PyObject *op, void *arg)
{
    if (PyModule_Check(op)) {
        cpy_module_assign_version(op);
    }
    return referents_visit(op, meet_new, arg);
}

/* Static types are not listed: their dictionaries and tuples are reached from here. */
static int
meet_of_type(PyTypeObject *type, void *arg)
{
    return referents_visit((PyObject *)type, meet_soon, arg);
}

/* From `first` on. `unlisted` grows on the way. */
static int
meet_of_unlisted(size_t first)
{
    int err = meet_those_on_the_way();
    for (size_t i = first; !err && i < ends.unlisted.count; i++) {
        err = meet_unlisted_referents(ends.unlisted.items[i]);
        if (!err && i + 1 == ends.unlisted.count) {
            err = meet_those_on_the_way();
        }
    }
    return err;
}

/* What running calls alone refer to comes last, and is not to be sealed: it goes with them. */
static int
meet_all(PyObject *types)
{
    ends.referrer = NULL;
    int err = types_each(types, meet_of_type, NULL);
    err = err ? err : cpy_running_code_visit(meet_soon, NULL);
    err = err ? err : order_visit_sealed(meet_referents_of_sealed, NULL);
    err = err ? err : order_visit(meet_referents, NULL);
    err = err ? err : meet_of_unlisted(0);
    ends.reached = ends.unlisted.count;
    ends.value = NULL;
    cpy_roots_visit(NULL, meet_root, NULL); /* a bit that could not be set: left mortal */
    return err ? err : meet_of_unlisted(ends.reached);
}

/* With too many owners, an object with many references is a lasting part of the program. */
static int
is_kept_by_few(PyObject *op, void *Py_UNUSED(arg))
{
    return is_kept(op, NULL) && Py_REFCNT(op) <= ENDS_OWNER_MAX_REFERENCES;
}

static int
is_kept_in_chain(PyObject *op, void *Py_UNUSED(arg))
{
    return is_kept(op, NULL) && Py_REFCNT(op) <= CHAIN_MAX_REFERENCES;
}

/* A function of a module holds all of the module. */
static bool
function_owns(PyFunctionObject *func, visitproc is)
{
    PyObject *owned[] = {func->func_closure, func->func_defaults, func->func_kwdefaults,
                         func->func_dict};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(owned); i++) {
        if (owned[i] != NULL && is(owned[i], NULL)) {
            return true;
        }
    }
    return false;
}

/* So much of an object may be searched. datetime allocates objects without a time zone without the
   last field. */
static Py_ssize_t
searched_bytes(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (type->tp_alloc != PyType_GenericAlloc
        && (strcmp(type->tp_name, "datetime.datetime") == 0
            || strcmp(type->tp_name, "datetime.time") == 0)
        && !((_PyDateTime_BaseTZInfo *)op)->hastzinfo) {
        return 0;
    }
    return Py_MIN(type->tp_basicsize, SEARCHED_MAX_BYTES);
}

/* Whether the object's own memory holds the address of one for which `is` holds. Words that are no
   pointers have no bit, or that of another object: one more stays mortal. */
static bool
body_holds(PyObject *op, bool (*is)(const mark_bits *, const void *))
{
    Py_ssize_t bytes = searched_bytes(op);
    for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= bytes;
         at += sizeof(void *)) {
        const void *word;
        memcpy(&word, (char *)op + at, sizeof word);
        if (word != NULL && is(&ends.bits, word)) {
            return true;
        }
    }
    return false;
}

static bool
is_counting_buffers(const mark_bits *bits, const void *word)
{
    return mark_bits_is_aligned(word) && mark_bits_is_noted(bits, word)
           && cpy_type_counts_buffers(Py_TYPE((PyObject *)word));
}

static bool
may_hold_buffer(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return type->tp_basicsize >= BUFFER_HOLDER_MIN_BYTES && !type_ends_is_plain_container(type)
           && end_of_type(type)->in_c;
}

static bool
holds_buffer(PyObject *op)
{
    return ends.has_buffers && may_hold_buffer(op) && body_holds(op, is_counting_buffers);
}

/* Whether an object owns one for which `is` holds, or a buffer. */
static bool
owns(PyObject *op, visitproc is)
{
    if (PyFunction_Check(op)) {
        return function_owns((PyFunctionObject *)op, is);
    }
    if (Py_TYPE(op)->tp_traverse == NULL) {
        return body_holds(op, mark_bits_is_marked) || holds_buffer(op);
    }
    return referents_visit(op, is, NULL) != 0 || holds_buffer(op);
}

static bool
can_end(PyObject *op)
{
    return !cpy_is_immortal(op)
           && (Py_REFCNT(op) <= ENDS_OWNER_MAX_REFERENCES || cpy_is_running_thing(op))
           && !PyType_Check(op) && !PyModule_Check(op) && !PyCode_Check(op)
           && !(PyDict_CheckExact(op) && cpy_gc_listed(op)
                && mark_bits_is_noted(&ends.bits, op)); /* of a module */
}

static int
keep_if_owner(PyObject *op, void *Py_UNUSED(arg))
{
    if (!can_end(op) || is_kept(op, NULL) || !owns(op, is_kept)) {
        return 0;
    }
    int err = scratch_stack_push(&ends.owners, op);
    return err ? err : keep(op);
}

/* Listed objects that do not wait are unchanged. Looks at few objects. */
static int
may_be_kept_later(PyObject *op, void *Py_UNUSED(arg))
{
    return order_waits(op) || (mark_bits_is_noted(&ends.bits, op) && can_end(op));
}

static int
keep_waiting_if_owner(PyObject *op, void *arg)
{
    int err = keep_if_owner(op, arg);
    if (is_kept(op, NULL) || referents_visit(op, may_be_kept_later, NULL) == 0) {
        order_let_wait(op, false);
    }
    return err;
}

static int
keep_owners_forwards(void)
{
    int err = 0;
    for (size_t i = 0; !err && i < ends.unlisted.count; i++) {
        err = keep_if_owner(ends.unlisted.items[i], NULL);
    }
    return err ? err : order_visit_waiting(keep_waiting_if_owner, NULL);
}

static int
keep_owners_backwards(void)
{
    int err = order_visit_waiting_backwards(keep_waiting_if_owner, NULL);
    for (size_t i = ends.unlisted.count; !err && i > 0; i--) {
        err = keep_if_owner(ends.unlisted.items[i - 1], NULL);
    }
    return err;
}

static bool
are_too_many(size_t owners, size_t with_ends)
{
    return owners > OWNERS_ENOUGH && owners > ends.met / OWNERS_SHARE
           && owners > OWNERS_FOR_EACH * with_ends;
}

/* Objects that refer to their own outside of traversal were not asked yet. */
static int
keep_owners_out_of_sight(void)
{
    int err = 0;
    for (size_t i = 0; !err && i < ends.unlisted.count; i++) {
        PyObject *op = ends.unlisted.items[i];
        err = Py_TYPE(op)->tp_traverse == NULL ? keep_if_owner(op, NULL) : 0;
    }
    return err;
}

/* Until a look has found none, or there were enough. */
static int
keep_all_owners(size_t with_ends)
{
    int err = keep_owners_out_of_sight();
    bool may_be_more = true;
    for (int looks = 0; !err && may_be_more && looks < OWNER_LOOKS_MAX; looks++) {
        size_t before = ends.found;
        err = looks % 2 ? keep_owners_forwards() : keep_owners_backwards();
        may_be_more = ends.found != before;
        if (are_too_many(ends.owners.count, with_ends)) {
            ends.has_too_many = true;
            break;
        }
    }
    return err;
}

static void
forget_owners(size_t but)
{
    while (ends.owners.count > but) {
        mark_bits_unmark(&ends.bits, scratch_stack_pop(&ends.owners));
        ends.found--;
    }
}

/* They are marked when all of the level are known. */
static int
find_owner_of_level(PyObject *op, void *level)
{
    visitproc is = *(int *)level < OWNER_LEVELS ? is_kept_by_few : is_kept_in_chain;
    bool is_one = can_end(op) && !is_kept(op, NULL) && owns(op, is);
    return is_one ? scratch_stack_push(&ends.owners, op) : 0;
}

static int
keep_level(int level)
{
    int err = 0;
    size_t known = ends.owners.count;
    for (size_t i = 0; !err && i < ends.unlisted.count; i++) {
        err = find_owner_of_level(ends.unlisted.items[i], &level);
    }
    err = err ? err : order_visit_mortal(find_owner_of_level, &level);
    for (size_t i = known; !err && i < ends.owners.count; i++) {
        err = keep(ends.owners.items[i]);
    }
    return err;
}

/* The next level is kept only if that is not too many again. */
static int
keep_near_owners(size_t with_ends)
{
    int err = 0;
    size_t before = 1;
    for (int level = 0; !err && level < CHAIN_LEVELS && ends.owners.count != before; level++) {
        before = ends.owners.count;
        err = keep_level(level);
        if (!err && level > 0 && are_too_many(ends.owners.count, with_ends)) {
            forget_owners(before);
        }
    }
    return err;
}

static int
keep_owners(void)
{
    size_t with_ends = ends.found - ends.foreign - ends.owners.count;
    int err = keep_all_owners(with_ends);
    if (!err && ends.has_too_many) {
        forget_owners(0);
        err = keep_near_owners(with_ends);
    }
    return err;
}

/* An object that only a running call holds ends with the call, and may hold anything by then. */
static int
keep_if_it_goes(PyObject *op, void *Py_UNUSED(arg))
{
    if (cpy_gc_listed(op) && can_end(op) && !PyFunction_Check(op) && !is_kept(op, NULL)) {
        (void)keep(op); /* without memory for its bit it becomes immortal */
    }
    return 0;
}

/* A collection that finds such an object in a cycle moves its weak references with callbacks to a list
   of its own, which must not be done to an immortal one: the collector takes those out of all lists. */
static int
keep_watchers(PyObject *op, void *Py_UNUSED(arg))
{
    int err = 0;
    PyWeakReference *ref = is_kept(op, NULL) ? cpy_weakrefs(op) : NULL;
    for (; !err && ref != NULL; ref = ref->wr_next) {
        err = ref->wr_callback != NULL ? keep((PyObject *)ref) : 0;
    }
    return err;
}

static int
keep_all(void)
{
    int err = keep_owners();
    cpy_roots_visit(NULL, keep_if_it_goes, NULL);
    return err ? err : order_visit_marked(&ends.bits, keep_watchers, NULL);
}

bool
ends_register_owner(PyTypeObject *type, PyObject *sample, PyObject *owned)
{
    if (owner.type == type) {
        return true;
    }
    size_t bytes = Py_TYPE(sample) == type ? (size_t)type->tp_basicsize : 0;
    for (size_t at = sizeof(PyObject); at + sizeof(void *) <= bytes; at += sizeof(void *)) {
        if (memcmp((char *)sample + at, &owned, sizeof owned) == 0) {
            Py_XSETREF(owner.type, (PyTypeObject *)Py_NewRef(type));
            owner.offset = at;
            return true;
        }
    }
    return false;
}

int
ends_prepare(void)
{
    if (type_ends_prepare() < 0) {
        return -1;
    }
    PyObject *modules = PyImport_GetModuleDict();
    ends.weakref_dict = cpy_imported_dict(modules, "weakref");
    ends.weakset_dict = cpy_imported_dict(modules, "_weakrefset");
    return 0;
}

/* One may be gone, and its address another's. */
static void
forget_types(void)
{
    memset(ends.looked_up, 0, sizeof ends.looked_up);
}

int
ends_find(PyObject *types, visitproc value, void *value_arg)
{
    ends.met = ends.found = ends.foreign = 0;
    ends.has_buffers = ends.has_too_many = false;
    forget_types();
    ends.referents = ends.referrers = (fetch_queue){0};
    ends.value = value;
    ends.value_arg = value_arg;
    int err = mark_bits_init(&ends.bits);
    if (err) {
        return err;
    }
    err = order_take(look_at_listed);
    err = err ? err : meet_all(types);
    err = err ? err : keep_all();
    if (err) {
        ends_release();
    }
    return err;
}

void
ends_release(void)
{
    if (ends.bits.tables != NULL) {
        mark_bits_release(&ends.bits);
    }
    scratch_stack_release(&ends.unlisted);
    scratch_stack_release(&ends.owners);
}

mark_bits
ends_hand_over(void)
{
    mark_bits found = ends.bits;
    ends.bits = (mark_bits){0};
    ends_release();
    return found;
}

void
ends_forget(void)
{
    ends_release();
    memset(ends.looked_up, 0, sizeof ends.looked_up);
    owner.type = NULL;
    type_ends_forget();
}

bool
ends_owners_are_left_out(void)
{
    return ends.has_too_many;
}

bool
ends_matters(PyObject *op)
{
    assert(ends.bits.tables != NULL);
    return is_kept(op, NULL);
}

PyTypeObject *
ends_foreign_type(PyObject *op)
{
    return PyType_Check(op) || PyModule_Check(op) ? NULL : end_of_type(Py_TYPE(op))->foreign;
}

bool
ends_shows(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (is_plain_value(type) || cpy_is_immortal(op) || PyType_Check(op) || PyModule_Check(op)) {
        return false;
    }
    type_end end = type_ends_look_up(type); /* one that was looked up before may be gone */
    return type_ends_is_plain_container(type) ? is_watched(op)
                                              : end.foreign != NULL || shows_end(op, &end);
}

bool
ends_is_being_filled(PyObject *op)
{
    if (!cpy_may_be_filled(op)) {
        return false;
    }
    bool lacks_owner = ends.bits.tables != NULL && !is_held(op);
    return lacks_owner || cpy_has_gap(op);
}

int
ends_visit_unlisted(visitproc visit, void *arg)
{
    int err = 0;
    for (size_t i = 0; !err && i < ends.reached; i++) {
        err = visit(ends.unlisted.items[i], arg);
    }
    return err;
}

#else

bool
ends_register_owner(PyTypeObject *Py_UNUSED(type), PyObject *Py_UNUSED(sample),
                    PyObject *Py_UNUSED(owned))
{
    return false;
}

void
ends_forget(void)
{
}

#endif
#endif
