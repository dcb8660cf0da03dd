/* All that pasture knows about CPython's internals.
 *
 * Every other file is written in terms of the cpy_* names below. PY_VERSION_HEX and
 * pycore_* appear here and nowhere else. What is assumed about layouts is asserted
 * at compile time here and compared with the running interpreter once, in layout.c.
 *
 * Words used throughout:
 *   listed      an object that stands in one of the collector's lists ("tracked")
 *   immortal    reference counting leaves the object alone (PEP 683, CPython 3.12)
 *   pool        pymalloc's unit of one size class, 16 KiB; not an OS page
 */
#ifndef PASTURE_CPYTHON_H
#define PASTURE_CPYTHON_H

#ifndef Py_BUILD_CORE_MODULE
#  define Py_BUILD_CORE_MODULE 1
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which interpreters are supported. An unsupported one still compiles, to a module
   that says why it does nothing. */
#if defined(PYPY_VERSION)
#  define CPY_UNSUPPORTED "PyPy has no reference counts and a collector of its own"
#elif defined(Py_GIL_DISABLED)
#  define CPY_UNSUPPORTED \
    "this is a free-threaded build: its objects and its collector are laid out differently"
#elif PY_VERSION_HEX < 0x030B0000
#  define CPY_UNSUPPORTED "CPython before 3.11 is not supported"
#elif PY_VERSION_HEX >= 0x03100000
#  define CPY_UNSUPPORTED "this version of CPython is newer than pasture knows"
#elif PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < 0x030E0500
#  define CPY_UNSUPPORTED \
    "CPython 3.14.0 to 3.14.4 has an incremental collector; 3.14.5 and later are supported"
#elif SIZEOF_VOID_P != 8 || PY_BIG_ENDIAN
#  define CPY_UNSUPPORTED "only 64-bit little-endian machines are supported"
#endif

/* Patch releases that share their layouts form one family: an extension built in one
   family must not run in another. 3.14 changed its collector in 3.14.5. */
#define CPY_LAYOUT_FAMILY(hex) \
    (((hex) >> 16) * 2u + (((hex) >> 16) == 0x030Eu && (hex) >= 0x030E0500u))

#ifndef CPY_UNSUPPORTED

#include <frameobject.h>
#include <opcode.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal/pycore_code.h" /* _Py_CODEUNIT, _PyCoCached */
#include "internal/pycore_dict.h" /* struct _dictkeysobject */
#include "internal/pycore_gc.h"   /* PyGC_Head, struct _gc_runtime_state */
#if PY_VERSION_HEX >= 0x030E0000
#  include "internal/pycore_interpframe_structs.h" /* struct _PyInterpreterFrame */
#else
#  include "internal/pycore_frame.h" /* struct _PyInterpreterFrame */
#endif
#include "internal/pycore_interp.h" /* struct _is */
#if PY_VERSION_HEX >= 0x030C0000
#  include "internal/pycore_obmalloc.h" /* struct pool_header */
#endif
#if PY_VERSION_HEX >= 0x030D0000
#  include "internal/pycore_opcode_metadata.h" /* _PyOpcode_Caches, _PyOpcode_Deopt */
#endif
#if PY_VERSION_HEX >= 0x030E0000
#  include "internal/pycore_optimizer.h" /* _Py_Executors_InvalidateAll */
#endif
#pragma GCC diagnostic pop

/* --- Immortality ------------------------------------------------------------------ */

#if PY_VERSION_HEX >= 0x030C0000
#  define CPY_HAS_IMMORTALITY 1
#else
#  define CPY_HAS_IMMORTALITY 0
#endif

#if CPY_HAS_IMMORTALITY

static inline bool
cpy_is_immortal(PyObject *op)
{
    return _Py_IsImmortal(op);
}

/* A debug build asserts that a string which is neither interned nor static is mortal.
   Release builds handle the combination (CPython Objects/unicodeobject.c, intern_common). */
static inline bool
cpy_must_stay_mortal(PyObject *op)
{
#  if defined(Py_DEBUG) && PY_VERSION_HEX >= 0x030D0000
    return PyUnicode_Check(op) && ((PyASCIIObject *)op)->state.interned == SSTATE_NOT_INTERNED;
#  else
    (void)op;
    return false;
#  endif
}

/* An interned string carries its immortality a second time, for the shutdown. */
static inline void
cpy_settle_interned(PyObject *op)
{
    if (PyUnicode_Check(op) && ((PyASCIIObject *)op)->state.interned == SSTATE_INTERNED_MORTAL) {
#  ifdef SSTATE_INTERNED_IMMORTAL
        ((PyASCIIObject *)op)->state.interned = SSTATE_INTERNED_IMMORTAL;
#  endif
    }
}

/* 3.14 and later look at the flag before the evaluation stack takes a reference, and
   at the count everywhere else: both must be set, or every read flips the count. */
static inline void
cpy_make_immortal(PyObject *op)
{
#  if PY_VERSION_HEX >= 0x030E0000
    op->ob_flags |= _Py_IMMORTAL_FLAGS;
    op->ob_refcnt = (uint32_t)_Py_IMMORTAL_INITIAL_REFCNT;
#  else
    op->ob_refcnt = _Py_IMMORTAL_REFCNT;
#  endif
    cpy_settle_interned(op);
}

/* How far the count of an immortal object is from where it was set. */
typedef enum {
    CPY_COUNT_IN_PLACE,
    CPY_COUNT_DRIFTED, /* it can be set again */
    CPY_COUNT_FOREIGN, /* not a count that was set and has drifted: to be left alone */
} cpy_count_state;

/* Extensions built for the stable ABI of before 3.12 count references to immortal objects,
   which the interpreter does not; so a difference adds up. They count in 64 bits, of which the
   interpreter looks at the lower half: from 2^31 on it is immortal.
   3.12 and 3.13 set all bits of that half, and the first reference makes the object mortal,
   with a carry in the upper half, which nothing uses up. From 3.14 on the carry comes after
   2^30 references, and nothing but a flag is above it. */
static inline cpy_count_state
cpy_count_state_of(PyObject *op)
{
    uint64_t word;
    memcpy(&word, op, sizeof word);
#  if PY_VERSION_HEX >= 0x030E0000
    const uint64_t tolerated = (uint64_t)1 << 20;
    const uint64_t set = _Py_IMMORTAL_INITIAL_REFCNT;
    const uint64_t low = word & 0xFFFFFFFFFFFF; /* the count and its carry */
    if (!(word >> 48 & _Py_IMMORTAL_FLAGS)) {
        return CPY_COUNT_FOREIGN;
    }
#  else
    const uint64_t tolerated = 0;
    const uint64_t set = _Py_IMMORTAL_REFCNT;
    const uint64_t low = word;
#  endif
    if (low + tolerated >= set && low <= set + tolerated) {
        return CPY_COUNT_IN_PLACE;
    }
    const uint64_t most = (uint64_t)3 << 31;
    return low >= (uint64_t)1 << 31 && low < most ? CPY_COUNT_DRIFTED : CPY_COUNT_FOREIGN;
}

/* Set a count that has drifted again. */
static inline void
cpy_count_reset(PyObject *op)
{
#  if PY_VERSION_HEX >= 0x030E0000
    op->ob_overflow = 0;
#  endif
    op->ob_refcnt = 0; /* all of it on 3.12 and 3.13 */
    cpy_make_immortal(op);
}

#else /* no immortality */

static inline bool
cpy_is_immortal(PyObject *Py_UNUSED(op))
{
    return false;
}

static inline bool
cpy_must_stay_mortal(PyObject *Py_UNUSED(op))
{
    return true;
}

#endif

/* --- The collector's lists ----------------------------------------------------------
 *
 * A list is circular and doubly linked through the PyGC_Head before each object; its
 * head is itself a PyGC_Head that belongs to no object.
 */

#define CPY_GENERATIONS NUM_GENERATIONS
static_assert(NUM_GENERATIONS == 3, "the collector has three generations");
static_assert(sizeof(PyGC_Head) == 16, "the GC head is two words");

static inline struct _gc_runtime_state *
cpy_gc_state(void)
{
    /* Not PyInterpreterState_GET(): it is inline over a thread-local that extension
       modules cannot see. */
    return &PyInterpreterState_Get()->gc;
}

static inline PyGC_Head *
cpy_gc_generation(struct _gc_runtime_state *gc, int i)
{
    return &gc->generations[i].head;
}

static inline PyGC_Head *
cpy_gc_permanent(struct _gc_runtime_state *gc)
{
    return &gc->permanent_generation.head;
}

static inline PyGC_Head *
cpy_gc_next(const PyGC_Head *head)
{
    return (PyGC_Head *)head->_gc_next;
}

static inline PyGC_Head *
cpy_gc_prev(const PyGC_Head *head)
{
    return (PyGC_Head *)(head->_gc_prev & _PyGC_PREV_MASK);
}

static inline PyObject *
cpy_gc_object(PyGC_Head *head)
{
    return (PyObject *)(head + 1);
}

static inline PyGC_Head *
cpy_gc_head(PyObject *op)
{
    return (PyGC_Head *)op - 1;
}

/* Whether `op` stands in one of the lists. */
static inline bool
cpy_gc_listed(PyObject *op)
{
    return PyObject_IS_GC(op) && cpy_gc_head(op)->_gc_next != 0;
}

/* Make `list` an empty list. */
static inline void
cpy_gc_list_init(PyGC_Head *list)
{
    list->_gc_next = list->_gc_prev = (uintptr_t)list;
}

/* Make `second` follow `first`. Keeps the flags in the low bits of the link back. */
static inline void
cpy_gc_link(PyGC_Head *first, PyGC_Head *second)
{
    _PyGCHead_SET_NEXT(first, second);
    _PyGCHead_SET_PREV(second, first);
}

/* Move everything in `from` to the end of `to`. Writes the ends of both lists only. */
static inline void
cpy_gc_splice(PyGC_Head *from, PyGC_Head *to)
{
    if (cpy_gc_next(from) != from) {
        PyGC_Head *first = cpy_gc_next(from), *last = cpy_gc_prev(from);
        cpy_gc_link(cpy_gc_prev(to), first);
        cpy_gc_link(last, to);
        cpy_gc_list_init(from);
    }
}

/* Move one object from its list, whichever that is, to the start of `to`. Writes the
   object and its neighbours. */
static inline void
cpy_gc_move_to_start(PyGC_Head *node, PyGC_Head *to)
{
    cpy_gc_link(cpy_gc_prev(node), cpy_gc_next(node));
    cpy_gc_link(node, cpy_gc_next(to));
    cpy_gc_link(to, node);
}

/* Same as PyObject_IS_GC(), without the call. */
static inline bool
cpy_is_container(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC)
           && (type->tp_is_gc == NULL || type->tp_is_gc(op));
}

/* Whether an object that is no container now may stand in a list: its type has containers
   and changes its mind, as greenlets do while they run. Static types never stand in one. */
static inline bool
cpy_may_hide_in_list(PyObject *op)
{
    return PyType_HasFeature(Py_TYPE(op), Py_TPFLAGS_HAVE_GC) && !PyType_Check(op);
}

/* --- Where references from outside the heap start ------------------------------------ */

/* The code that a frame runs. */
static inline PyCodeObject *
cpy_frame_code(struct _PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    return (PyCodeObject *)(frame->f_executable.bits & ~(uintptr_t)3);
#elif PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* Call `visit` with what a running frame holds: every call of a thread has one. */
static inline void
cpy_frame_visit(struct _PyInterpreterFrame *frame, visitproc visit, void *arg)
{
#define CPY_VISIT_ONE(op) \
    do { \
        if ((op) != NULL) { \
            (void)visit((PyObject *)(op), arg); \
        } \
    } while (0)
#if PY_VERSION_HEX >= 0x030E0000
/* A reference on the stack is a pointer with flags in its two lowest bits; bit 1 says
   that it is none. */
#  define CPY_REFERENT(ref) ((ref).bits & 2 ? NULL : (PyObject *)((ref).bits & ~(uintptr_t)3))
    PyCodeObject *code = cpy_frame_code(frame);
    Py_ssize_t cells = frame->stackpointer != NULL ? frame->stackpointer - frame->localsplus
                                                   : code->co_nlocalsplus;
    CPY_VISIT_ONE(CPY_REFERENT(frame->f_funcobj));
#else
/* The depth of the stack is known of a frame that has called another one. */
#  define CPY_REFERENT(ref) (ref)
    PyCodeObject *code = cpy_frame_code(frame);
    Py_ssize_t cells = Py_MAX(frame->stacktop, code->co_nlocalsplus);
#  if PY_VERSION_HEX >= 0x030C0000
    CPY_VISIT_ONE(frame->f_funcobj);
#  else
    CPY_VISIT_ONE(frame->f_func);
#  endif
#endif
    CPY_VISIT_ONE(frame->f_locals);
    CPY_VISIT_ONE(frame->frame_obj);
    for (Py_ssize_t i = 0; i < cells; i++) {
        CPY_VISIT_ONE(CPY_REFERENT(frame->localsplus[i]));
    }
#undef CPY_REFERENT
}

static inline struct _PyInterpreterFrame *
cpy_current_frame(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030D0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

static inline void
cpy_thread_visit(PyThreadState *thread, visitproc visit, void *arg)
{
    struct _PyInterpreterFrame *frame = cpy_current_frame(thread);
    for (; frame != NULL; frame = frame->previous) {
        /* Others mark where C code was entered and hold nothing. */
        if (frame->owner <= FRAME_OWNED_BY_FRAME_OBJECT) {
            cpy_frame_visit(frame, visit, arg);
        }
    }
    CPY_VISIT_ONE(thread->dict);
    CPY_VISIT_ONE(thread->context);
}

/* Call `visit` with the code of each call that goes on now, in any thread. No list of the
   collector leads to it where its function has got another code meanwhile, or is gone. Stops
   at the first result that is not 0 and returns that. */
static inline int
cpy_running_code_visit(visitproc visit, void *arg)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        struct _PyInterpreterFrame *frame = cpy_current_frame(thread);
        for (; frame != NULL; frame = frame->previous) {
            if (frame->owner <= FRAME_OWNED_BY_FRAME_OBJECT) {
                Py_VISIT(cpy_frame_code(frame));
            }
        }
    }
    return 0;
}

static inline PyObject *
cpy_sysdict(void)
{
    return PyInterpreterState_Get()->sysdict;
}

static inline PyObject *
cpy_modules(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyInterpreterState_Get()->imports.modules;
#else
    return PyInterpreterState_Get()->modules;
#endif
}

/* Call `visit` with objects that the interpreter holds from outside of every object:
   modules, and what its threads work with. Far from complete; each is certain. */
static inline void
cpy_roots_visit(visitproc visit, void *arg)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    CPY_VISIT_ONE(cpy_sysdict());
    CPY_VISIT_ONE(cpy_modules());
    CPY_VISIT_ONE(interp->builtins);
    CPY_VISIT_ONE(interp->dict);
    PyThreadState *thread = PyInterpreterState_ThreadHead(interp);
    for (; thread != NULL; thread = PyThreadState_Next(thread)) {
        cpy_thread_visit(thread, visit, arg);
    }
#undef CPY_VISIT_ONE
}

/* Objects may be shared with another interpreter, whose roots nobody here knows. */
static inline bool
cpy_is_only_interpreter(void)
{
    return PyInterpreterState_Next(PyInterpreterState_Head()) == NULL;
}

/* New reference to the built-in gc.collect, whatever the module's attribute is by now. */
static inline PyObject *
cpy_builtin_collect(void)
{
    PyObject *module = PyImport_ImportModule("gc");
    PyModuleDef *def = module != NULL ? PyModule_GetDef(module) : NULL;
    PyObject *function = NULL;
    for (PyMethodDef *method = def ? def->m_methods : NULL; method && method->ml_name; method++) {
        if (strcmp(method->ml_name, "collect") == 0) {
            function = PyCFunction_New(method, module);
        }
    }
    if (function == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "the gc module is not CPython's");
    }
    Py_XDECREF(module);
    return function;
}

/* An exception from a function that `gc.callbacks` holds: it is set, and gets reported. */
static inline void
cpy_report_gc_callback(PyObject *callback)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyErr_FormatUnraisable("Exception ignored while calling GC callback %R", callback);
#else
    PyErr_WriteUnraisable(callback);
#endif
}

/* --- What common containers refer to, without tp_traverse ---------------------------- */

/* `count` references, one every `stride` words. Some may be NULL. */
typedef struct {
    PyObject **first;
    Py_ssize_t count;
    Py_ssize_t stride;
} cpy_references;

static inline cpy_references
cpy_list_references(PyObject *op)
{
    return (cpy_references){((PyListObject *)op)->ob_item, Py_SIZE(op), 1};
}

static inline cpy_references
cpy_tuple_references(PyObject *op)
{
    return (cpy_references){((PyTupleObject *)op)->ob_item, Py_SIZE(op), 1};
}

/* The values; keys too where not all keys are strings: the same that dict_traverse visits. */
static inline cpy_references
cpy_dict_references(PyObject *op)
{
    PyDictObject *dict = (PyDictObject *)op;
    PyDictKeysObject *keys = dict->ma_keys;
    if (dict->ma_values != NULL) {
        return (cpy_references){dict->ma_values->values, keys->dk_nentries, 1};
    }
    if (DK_IS_UNICODE(keys)) {
        return (cpy_references){&DK_UNICODE_ENTRIES(keys)->me_value, keys->dk_nentries, 2};
    }
    return (cpy_references){NULL, -1, 0}; /* keys and hashes between: ask tp_traverse */
}

/* A type that a module holds: a new reference, or NULL with an exception set. */
static inline PyTypeObject *
cpy_find_type(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *type = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return (PyTypeObject *)type;
}

/* tp_traverse of classes made in Python, or NULL with an exception set. */
static inline traverseproc
cpy_find_class_traverse(void)
{
    PyTypeObject *type = cpy_find_type("_frozen_importlib", "ModuleSpec");
    traverseproc traverse = type != NULL ? type->tp_traverse : NULL;
    Py_XDECREF(type);
    return traverse;
}

/* Instances of plain classes (3.13): values lie in the object, with room for 30 at first.
   How many are in use is told by the keys that the instances share. Returns whether `op`
   is one, without __slots__ in its class or any base; then `values` and `dict` are all it
   refers to but its type. */
static inline bool
cpy_plain_instance(PyObject *op, traverseproc class_traverse, cpy_references *values,
                   PyObject **dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyTypeObject *type = Py_TYPE(op);
    if (type->tp_traverse != class_traverse || !PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES)) {
        return false;
    }
    PyTypeObject *base = type;
    while (base->tp_traverse == class_traverse) {
        if (Py_SIZE(base) != 0) { /* number of slots that the class adds */
            return false;
        }
        base = base->tp_base;
    }
    if (base->tp_traverse != NULL) {
        return false;
    }
    PyDictValues *stored = _PyObject_InlineValues(op);
    Py_ssize_t used = ((PyHeapTypeObject *)type)->ht_cached_keys->dk_nentries;
    *values =
        (cpy_references){stored->values, stored->valid ? Py_MIN(used, stored->capacity) : 0, 1};
    *dict = (PyObject *)_PyObject_GetManagedDict(op);
    return true;
#else
    (void)op, (void)class_traverse, (void)values, (void)dict;
    return false;
#endif
}

/* Where the storage of a container starts that is not part of the object; NULL: none. */
static inline const void *
cpy_storage(PyObject *op)
{
    if (PyList_CheckExact(op)) {
        return ((PyListObject *)op)->ob_item;
    }
    if (PyDict_CheckExact(op)) {
        return ((PyDictObject *)op)->ma_keys;
    }
    return NULL;
}

/* --- Strings, bytes, tuples: hashes computed at first use --------------------------- */

static inline Py_hash_t
cpy_str_hash(PyObject *op)
{
    return ((PyASCIIObject *)op)->hash;
}

static inline Py_hash_t
cpy_bytes_hash(PyObject *op)
{
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    return ((PyBytesObject *)op)->ob_shash;
    _Py_COMP_DIAG_POP
}

/* --- Dictionaries ------------------------------------------------------------------- */

/* Whether `op` is a dictionary, or a frozen one (3.15): PyDict_Next() takes both. */
static inline bool
cpy_is_dict(PyObject *op)
{
#if PY_VERSION_HEX >= 0x030F0000
    return PyAnyDict_Check(op);
#else
    return PyDict_Check(op);
#endif
}

/* The key table that instances of `type` share, or NULL. */
static inline PyDictKeysObject *
cpy_shared_keys(PyTypeObject *type)
{
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return NULL;
    }
    return ((PyHeapTypeObject *)type)->ht_cached_keys;
}

/* Call `visit` with each key of a shared table: all are strings. */
static inline int
cpy_shared_keys_visit(PyDictKeysObject *keys, visitproc visit, void *arg)
{
    if (keys->dk_kind != DICT_KEYS_SPLIT) {
        return 0;
    }
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key != NULL && visit(entries[i].me_key, arg) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Every new instance lowers `dk_usable` of its class's table until it is 1, so that what the
   first instances have becomes the layout of all. Go there at once for a class that has had
   an instance: later keys than those of the layout go to a dictionary of the instance. */
static inline void
cpy_shared_keys_settle(PyDictKeysObject *keys)
{
#if PY_VERSION_HEX >= 0x030D0000 /* the layout starts with the attributes the class assigns */
    Py_ssize_t instances = SHARED_KEYS_MAX_SIZE - keys->dk_nentries - keys->dk_usable;
    if (keys->dk_kind == DICT_KEYS_SPLIT && instances > 0 && keys->dk_usable > 1) {
        keys->dk_usable = 1;
    }
#else
    (void)keys;
#endif
}

/* The version of a shared table by which specialized instructions recognise it; it is given
   when one is specialized. Versions are few (some instructions have 16 bits for them): only
   for tables of classes that have had an instance, and while plenty are left. */
static inline void
cpy_shared_keys_assign_version(PyDictKeysObject *keys)
{
#if PY_VERSION_HEX >= 0x030D0000
    uint32_t *next = &PyInterpreterState_Get()->dict_state.next_keys_version;
    Py_ssize_t instances = SHARED_KEYS_MAX_SIZE - keys->dk_nentries - keys->dk_usable;
    if (keys->dk_kind == DICT_KEYS_SPLIT && instances > 0 && keys->dk_version == 0 && *next != 0
        && *next < UINT16_MAX / 2) {
        keys->dk_version = (*next)++;
    }
#else
    (void)keys;
#endif
}

/* The count of a key table that is never freed. Read from the empty table, which is
   static: its value differs between versions and has no public name. */
static inline Py_ssize_t
cpy_immortal_keys_count(PyObject *empty_dict)
{
    return ((PyDictObject *)empty_dict)->ma_keys->dk_refcnt;
}

/* --- Types -------------------------------------------------------------------------- */

static inline unsigned int
cpy_type_version(PyTypeObject *type)
{
    return type->tp_version_tag;
}

/* Make the interpreter give `type` a version tag; it may decline. */
static inline void
cpy_type_assign_version(PyTypeObject *type, PyObject *any_name)
{
#if PY_VERSION_HEX >= 0x030C0000
    (void)any_name;
    (void)PyUnstable_Type_AssignVersionTag(type);
#else
    (void)_PyType_Lookup(type, any_name); /* a cacheable lookup assigns one */
#endif
}

/* New reference to the dictionary of `type`, or NULL without an exception. */
static inline PyObject *
cpy_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(type);
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

/* --- Running things ----------------------------------------------------------------- */

/* Frames, generators and coroutines: they end, and what ends must be let go. */
static inline bool
cpy_is_running_thing(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return type == &PyFrame_Type || type == &PyGen_Type || type == &PyCoro_Type
           || type == &PyAsyncGen_Type;
}

/* tp_finalize of files, which flushes and closes them; or NULL with an exception set. */
static inline destructor
cpy_find_file_finalizer(void)
{
    PyTypeObject *type = cpy_find_type("_io", "_IOBase");
    destructor finalizer = type != NULL ? type->tp_finalize : NULL;
    Py_XDECREF(type);
    return finalizer;
}

/* --- Code objects ------------------------------------------------------------------- */

/* Call `visit` with everything a code object refers to. It has no tp_traverse. */
static inline int
cpy_code_visit(PyCodeObject *code, visitproc visit, void *arg)
{
    Py_VISIT(code->co_consts);
    Py_VISIT(code->co_names);
    Py_VISIT(code->co_exceptiontable);
    Py_VISIT(code->co_localsplusnames);
    Py_VISIT(code->co_localspluskinds);
    Py_VISIT(code->co_filename);
    Py_VISIT(code->co_name);
    Py_VISIT(code->co_qualname);
    Py_VISIT(code->co_linetable);
#if PY_VERSION_HEX >= 0x030C0000
    if (code->_co_cached != NULL) {
        Py_VISIT(code->_co_cached->_co_code);
        Py_VISIT(code->_co_cached->_co_varnames);
        Py_VISIT(code->_co_cached->_co_cellvars);
        Py_VISIT(code->_co_cached->_co_freevars);
    }
#else
    Py_VISIT(code->_co_code);
#endif
    return 0;
}

/* Instructions that replace themselves at their first run. From 3.13 on. */
#if PY_VERSION_HEX >= 0x030D0000
#  define CPY_HAS_FIRST_RUN_REWRITES 1

/* The JIT keeps addresses of code objects in compiled traces. */
static inline bool
cpy_jit_is_on(void)
{
#  if PY_VERSION_HEX >= 0x030E0000
    return PyInterpreterState_Get()->jit;
#  else
    return false;
#  endif
}

/* An instruction and its cache entries, in code units. Only for code that
   cpy_code_is_plain() accepts. */
static inline Py_ssize_t
cpy_instruction_units(_Py_CODEUNIT unit)
{
    return 1 + _PyOpcode_Caches[_PyOpcode_Deopt[unit.op.code]];
}

/* Code without monitoring events or compiled traces: every unit is a known instruction. */
static inline bool
cpy_code_is_plain(PyCodeObject *code)
{
    return code->_co_monitoring == NULL && code->co_executors == NULL;
}

/* The opcode that `unit` takes at its first run once its constant is immortal,
   or its own where it stays as it is. */
static inline uint8_t
cpy_first_run_opcode(_Py_CODEUNIT unit, PyObject *constant)
{
    switch (unit.op.code) {
#  if PY_VERSION_HEX >= 0x030E0000
    case RESUME: /* with the JIT both have other successors, which count */
        return cpy_jit_is_on() ? RESUME : RESUME_CHECK;
    case JUMP_BACKWARD:
        return cpy_jit_is_on() ? JUMP_BACKWARD : JUMP_BACKWARD_NO_JIT;
#  else
    case RESUME:
        return RESUME_CHECK;
#  endif
#  ifdef LOAD_CONST_IMMORTAL
    case LOAD_CONST:
    case LOAD_CONST_MORTAL:
        return constant != NULL && cpy_is_immortal(constant) ? LOAD_CONST_IMMORTAL : unit.op.code;
#  endif
    default:
        (void)constant;
        return unit.op.code;
    }
}

/* An instruction that takes its constant for mortal and adds a reference without a look (3.14). */
#  ifdef LOAD_CONST_MORTAL
#    define CPY_HAS_MORTAL_LOADS 1

static inline bool
cpy_is_mortal_load(_Py_CODEUNIT unit)
{
    return unit.op.code == LOAD_CONST_MORTAL;
}

/* New reference to the instructions of `code` as bytes, as they were compiled: no events, no
   traces, caches empty. NULL with an exception set where there is no memory. */
static inline PyObject *
cpy_code_plain(PyCodeObject *code)
{
    bool was_cached = code->_co_cached != NULL && code->_co_cached->_co_code != NULL;
    PyObject *plain = PyCode_GetCode(code);
    if (!was_cached && code->_co_cached != NULL) {
        Py_CLEAR(code->_co_cached->_co_code);
    }
    return plain;
}
#  else
#    define CPY_HAS_MORTAL_LOADS 0
#  endif

static inline bool
cpy_loads_constant(_Py_CODEUNIT unit)
{
    return _PyOpcode_Deopt[unit.op.code] == LOAD_CONST;
}

/* The instruction every execution passes first; it changes its opcode when it does.
   Code that is not compiled from source may lack it: NULL. */
static inline _Py_CODEUNIT *
cpy_code_entry(PyCodeObject *code)
{
    return code->_co_firsttraceable < Py_SIZE(code) ? &_PyCode_CODE(code)[code->_co_firsttraceable]
                                                    : NULL;
}

static inline bool
cpy_code_ran(PyCodeObject *code)
{
    _Py_CODEUNIT *entry = cpy_code_entry(code);
    return entry != NULL && entry->op.code == RESUME_CHECK;
}

/* Undo the trace of the first run; the next run leaves it again. */
static inline void
cpy_code_forget_run(PyCodeObject *code)
{
    if (cpy_code_is_plain(code) && cpy_code_ran(code)) {
        cpy_code_entry(code)->op.code = RESUME;
    }
}

/* Code that nobody can be known to hold by address: plain, without weak references and
   without data that a tool attached to it. */
static inline bool
cpy_code_is_movable(PyCodeObject *code)
{
    return cpy_code_is_plain(code) && code->co_weakreflist == NULL && code->co_extra == NULL;
}

static inline size_t
cpy_code_bytes(PyCodeObject *code)
{
    return (size_t)(PyCode_Type.tp_basicsize + Py_SIZE(code) * PyCode_Type.tp_itemsize);
}

/* A place in a code object for a pointer of ours, while no other code runs: empty in
   movable code, and to be emptied again. */
static inline void **
cpy_code_note(PyCodeObject *code)
{
    return &code->co_extra;
}

/* Let go of what a copy made byte by byte must not share with its original. */
static inline void
cpy_code_detach_copy(PyCodeObject *copy)
{
    copy->co_extra = NULL;
    copy->_co_cached = NULL; /* computed again when asked for */
}

#else
#  define CPY_HAS_FIRST_RUN_REWRITES 0
#endif

/* Have traces compiled again when they are next worth it: those that there are were compiled
   for constants that were mortal. */
static inline void
cpy_forget_traces(void)
{
#if PY_VERSION_HEX >= 0x030E0000 && defined(_Py_TIER2)
    if (PyInterpreterState_Get()->jit) {
        _Py_Executors_InvalidateAll(PyInterpreterState_Get(), 1);
    }
#endif
}

/* --- Sizes and fields of objects, for the census ------------------------------------ */

/* Bytes before an object that belong to it: the collector's header, and from it downwards
   the pointers to dictionary (or values) and weak references that the type manages. */
static inline size_t
cpy_prefix_bytes(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    size_t bytes = cpy_is_container(op) ? sizeof(PyGC_Head) : 0;
#if PY_VERSION_HEX >= 0x030C0000
    bytes += PyType_HasFeature(type, Py_TPFLAGS_PREHEADER) ? 2 * sizeof(void *) : 0;
#else
    bytes += PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT) ? 2 * sizeof(void *) : 0;
#endif
    return bytes;
}

static inline size_t
cpy_str_bytes(PyObject *op)
{
    PyASCIIObject *str = (PyASCIIObject *)op;
    if (!str->state.compact) {
        return sizeof(PyUnicodeObject);
    }
    size_t header = str->state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject);
    return header + (size_t)(str->length + 1) * str->state.kind;
}

static inline size_t
cpy_int_bytes(PyObject *op)
{
#if PY_VERSION_HEX >= 0x030C0000
    size_t digits = ((PyLongObject *)op)->long_value.lv_tag >> 3;
#else
    size_t digits = (size_t)Py_ABS(Py_SIZE(op));
#endif
    return (size_t)Py_TYPE(op)->tp_basicsize + (digits ? digits - 1 : 0) * sizeof(digit);
}

/* Room behind an object for the values of its attributes (3.13). */
static inline size_t
cpy_inline_values_bytes(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES) ? _PyInlineValuesSize(type) : 0;
#else
    (void)type;
    return 0;
#endif
}

/* Bytes from the address of an object on. Asks no Python code: at least what is written
   through the object itself, at most its block. */
static inline size_t
cpy_object_bytes(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (PyUnicode_CheckExact(op)) {
        return cpy_str_bytes(op);
    }
    if (PyLong_Check(op)) {
        return cpy_int_bytes(op);
    }
    if (PyType_Check(op) && !PyType_HasFeature((PyTypeObject *)op, Py_TPFLAGS_HEAPTYPE)) {
        return sizeof(PyTypeObject);
    }
    size_t bytes = (size_t)type->tp_basicsize;
    if (type->tp_itemsize > 0) {
        bytes += (size_t)Py_ABS(Py_SIZE(op)) * (size_t)type->tp_itemsize;
    }
    return bytes + cpy_inline_values_bytes(type);
}

static inline size_t
cpy_keys_bytes(const PyDictKeysObject *keys)
{
    size_t size = (size_t)1 << keys->dk_log2_size;
    size_t entry =
        keys->dk_kind == DICT_KEYS_GENERAL ? sizeof(PyDictKeyEntry) : sizeof(PyDictUnicodeEntry);
    return sizeof(PyDictKeysObject) + ((size_t)1 << keys->dk_log2_index_bytes)
           + (size << 1) / 3 * entry;
}

/* A piece of memory that an object owns without being an object. */
typedef enum {
    CPY_OBJECT = 0,
    CPY_DICT_KEYS = 1,
    CPY_DICT_VALUES = 2,
    CPY_LIST_ITEMS = 3,
    CPY_SET_TABLE = 4,
    CPY_SHARED_KEYS = 5,
    CPY_BYTES = 6,
} cpy_kind;

typedef int (*cpy_storage_visit)(cpy_kind kind, const void *start, size_t bytes, void *arg);

/* Values of a table whose keys are shared, in memory of their own. */
static inline int
cpy_values_visit(PyDictValues *values, PyDictKeysObject *keys, cpy_storage_visit visit, void *arg)
{
#if PY_VERSION_HEX >= 0x030D0000
    if (values->embedded) {
        return 0;
    }
    size_t capacity = values->capacity;
#else
    /* Only the bytes before the values tell their number, rounded: n + 2, up to a multiple of 8,
       in the last of them (Objects/dictobject.c, new_values). */
    size_t before = ((const uint8_t *)values)[-1];
    size_t capacity =
        Py_MAX(before - Py_MIN(before, 9), Py_MIN((size_t)keys->dk_nentries, before - 2));
#endif
    (void)keys;
    return visit(CPY_DICT_VALUES, values,
                 offsetof(PyDictValues, values) + capacity * sizeof(PyObject *), arg);
}

/* Call `visit` with each piece of memory that an object of a builtin type owns. */
static inline int
cpy_each_storage(PyObject *op, cpy_storage_visit visit, void *arg)
{
    if (cpy_is_dict(op)) {
        PyDictObject *dict = (PyDictObject *)op;
        int result = 0;
        if (dict->ma_values != NULL) {
            result = cpy_values_visit(dict->ma_values, dict->ma_keys, visit, arg);
        }
        bool shared = dict->ma_values != NULL;
        return result ? result
                      : visit(shared ? CPY_SHARED_KEYS : CPY_DICT_KEYS, dict->ma_keys,
                              cpy_keys_bytes(dict->ma_keys), arg);
    }
    if (PyList_Check(op)) {
        PyListObject *list = (PyListObject *)op;
        return list->ob_item == NULL ? 0
                                     : visit(CPY_LIST_ITEMS, list->ob_item,
                                             (size_t)list->allocated * sizeof(PyObject *), arg);
    }
    if (PyAnySet_Check(op)) {
        PySetObject *set = (PySetObject *)op;
        return set->table == set->smalltable
                   ? 0
                   : visit(CPY_SET_TABLE, set->table, (size_t)(set->mask + 1) * sizeof(setentry),
                           arg);
    }
    if (PyByteArray_Check(op)) {
        PyByteArrayObject *array = (PyByteArrayObject *)op;
        return array->ob_alloc == 0
                   ? 0
                   : visit(CPY_BYTES, array->ob_bytes, (size_t)array->ob_alloc, arg);
    }
    if (PyType_Check(op)) {
        PyDictKeysObject *keys = cpy_shared_keys((PyTypeObject *)op);
        return keys == NULL ? 0 : visit(CPY_SHARED_KEYS, keys, cpy_keys_bytes(keys), arg);
    }
    return 0;
}

/* Where a field stands, for a reader in another process. */
typedef struct {
    const char *holder; /* type, or structure that is none */
    const char *name;
    Py_ssize_t offset;
} cpy_field;

#define CPY_FIELD(holder, type, field) {holder, #field, offsetof(type, field)}
#define CPY_CODE(field) CPY_FIELD("code", PyCodeObject, field)
#define CPY_FUNC(field) CPY_FIELD("function", PyFunctionObject, field)
#define CPY_TYPE(field) CPY_FIELD("type", PyTypeObject, field)
#define CPY_HEAP_TYPE(field) CPY_FIELD("type", PyHeapTypeObject, field)
#define CPY_KEYS(field) CPY_FIELD("keys", PyDictKeysObject, field)
#define CPY_SET(field) CPY_FIELD("set", PySetObject, field)
#define CPY_WEAKREF(field) CPY_FIELD("weakref", PyWeakReference, field)

static const cpy_field cpy_fields[] = {
    CPY_FIELD("object", PyObject, ob_refcnt),
    CPY_FIELD("object", PyObject, ob_type),
    CPY_FIELD("object", PyVarObject, ob_size),
    CPY_FIELD("dict", PyDictObject, ma_used),
#if PY_VERSION_HEX >= 0x030E0000
    CPY_FIELD("dict", PyDictObject, _ma_watcher_tag),
#else
    {"dict", "ma_version_tag", offsetof(PyDictObject, ma_keys) - 8},
#endif
    CPY_FIELD("dict", PyDictObject, ma_keys),
    CPY_FIELD("dict", PyDictObject, ma_values),
    CPY_KEYS(dk_refcnt),
    CPY_KEYS(dk_log2_size),
    CPY_KEYS(dk_log2_index_bytes),
    CPY_KEYS(dk_kind),
    CPY_KEYS(dk_version),
    CPY_KEYS(dk_usable),
    CPY_KEYS(dk_nentries),
    CPY_KEYS(dk_indices),
    CPY_FIELD("values", PyDictValues, values),
    CPY_FIELD("list", PyListObject, ob_item),
    CPY_FIELD("list", PyListObject, allocated),
#if PY_VERSION_HEX >= 0x030E0000
    CPY_FIELD("tuple", PyTupleObject, ob_hash),
#endif
    CPY_FIELD("tuple", PyTupleObject, ob_item),
    CPY_FIELD("str", PyASCIIObject, length),
    CPY_FIELD("str", PyASCIIObject, hash),
    CPY_FIELD("str", PyASCIIObject, state),
    {"str", "ascii_data", sizeof(PyASCIIObject)},
    CPY_FIELD("str", PyCompactUnicodeObject, utf8_length),
    CPY_FIELD("str", PyCompactUnicodeObject, utf8),
    {"str", "compact_data", sizeof(PyCompactUnicodeObject)},
    {"bytes", "ob_shash", offsetof(PyBytesObject, ob_sval) - 8},
    CPY_FIELD("bytes", PyBytesObject, ob_sval),
    CPY_SET(fill),
    CPY_SET(used),
    CPY_SET(mask),
    CPY_SET(table),
    CPY_SET(hash),
    CPY_SET(finger),
    CPY_SET(smalltable),
    CPY_SET(weakreflist),
    CPY_WEAKREF(wr_object),
    CPY_WEAKREF(wr_callback),
    CPY_WEAKREF(hash),
    CPY_WEAKREF(wr_prev),
    CPY_WEAKREF(wr_next),
    {"module", "md_dict", sizeof(PyObject)},
    CPY_TYPE(tp_name),
    CPY_TYPE(tp_basicsize),
    CPY_TYPE(tp_itemsize),
    CPY_TYPE(tp_flags),
    CPY_TYPE(tp_weaklistoffset),
    CPY_TYPE(tp_members),
    CPY_TYPE(tp_base),
    CPY_TYPE(tp_dict),
    CPY_TYPE(tp_dictoffset),
    CPY_TYPE(tp_bases),
    CPY_TYPE(tp_mro),
    CPY_TYPE(tp_cache),
    CPY_TYPE(tp_subclasses),
    CPY_TYPE(tp_weaklist),
    CPY_TYPE(tp_version_tag),
#if PY_VERSION_HEX >= 0x030D0000
    /* The same word. */
    {"type", "tp_versions_used", offsetof(PyTypeObject, tp_versions_used) & ~(size_t)7},
#endif
    CPY_HEAP_TYPE(ht_name),
    CPY_HEAP_TYPE(ht_slots),
    CPY_HEAP_TYPE(ht_qualname),
    CPY_HEAP_TYPE(ht_cached_keys),
    CPY_HEAP_TYPE(ht_module),
    CPY_HEAP_TYPE(_spec_cache),
    {"type", "members", sizeof(PyHeapTypeObject)},
    CPY_FUNC(func_globals),
    CPY_FUNC(func_builtins),
    CPY_FUNC(func_name),
    CPY_FUNC(func_qualname),
    CPY_FUNC(func_code),
    CPY_FUNC(func_defaults),
    CPY_FUNC(func_kwdefaults),
    CPY_FUNC(func_closure),
    CPY_FUNC(func_doc),
    CPY_FUNC(func_dict),
    CPY_FUNC(func_weakreflist),
    CPY_FUNC(func_module),
    CPY_FUNC(func_annotations),
    CPY_FUNC(vectorcall),
    CPY_FUNC(func_version),
    CPY_CODE(co_consts),
    CPY_CODE(co_names),
    CPY_CODE(co_flags),
    CPY_CODE(co_filename),
    CPY_CODE(co_name),
    CPY_CODE(co_qualname),
    CPY_CODE(co_firstlineno),
    CPY_CODE(co_weakreflist),
#if PY_VERSION_HEX >= 0x030C0000
    CPY_CODE(co_version),
    CPY_CODE(_co_cached),
    CPY_CODE(_co_instrumentation_version),
    CPY_CODE(_co_monitoring),
#  if PY_VERSION_HEX >= 0x030D0000
    CPY_CODE(co_executors),
#  endif
#else
    CPY_CODE(_co_code),
#endif
    CPY_CODE(co_extra),
    CPY_CODE(co_code_adaptive),
};
#undef CPY_FIELD
#undef CPY_CODE
#undef CPY_FUNC
#undef CPY_TYPE
#undef CPY_HEAP_TYPE
#undef CPY_KEYS
#undef CPY_SET
#undef CPY_WEAKREF

/* --- pymalloc ----------------------------------------------------------------------- */

#define CPY_POOL_BYTES 16384u
#define CPY_SMALL_BLOCK_STEP_BYTES 16u
#define CPY_SMALL_BLOCK_MAX_BYTES 512u

#if PY_VERSION_HEX >= 0x030C0000
typedef struct pool_header cpy_pool;
static_assert(POOL_SIZE == CPY_POOL_BYTES, "a pool is 16 KiB");
static_assert(ALIGNMENT == CPY_SMALL_BLOCK_STEP_BYTES, "size classes are 16 bytes apart");
static_assert(SMALL_REQUEST_THRESHOLD == CPY_SMALL_BLOCK_MAX_BYTES, "largest small block");
#else
/* CPython 3.11 Objects/obmalloc.c, struct pool_header: not in a header there. */
typedef struct cpy_pool {
    union {
        uint8_t *padding;
        unsigned int count;
    } ref;
    uint8_t *freeblock;
    struct cpy_pool *nextpool;
    struct cpy_pool *prevpool;
    unsigned int arenaindex;
    unsigned int szidx;
    unsigned int nextoffset;
    unsigned int maxnextoffset;
} cpy_pool;
#endif
static_assert(sizeof(cpy_pool) == 48, "a pool's header is 48 bytes");

static inline cpy_pool *
cpy_pool_of(void *block)
{
    return (cpy_pool *)((uintptr_t)block & ~((uintptr_t)CPY_POOL_BYTES - 1));
}

/* Number of blocks handed out from the pool. */
static inline unsigned int
cpy_pool_used(const cpy_pool *pool)
{
    return pool->ref.count;
}

static inline unsigned int
cpy_pool_block_bytes(const cpy_pool *pool)
{
    return (pool->szidx + 1) * CPY_SMALL_BLOCK_STEP_BYTES;
}

/* Arenas, of which pools are cut. From 3.13 on, where the interpreter points to their state. */
#if PY_VERSION_HEX >= 0x030D0000
#  define CPY_HAS_ARENAS 1
#  define CPY_ARENA_BYTES ((size_t)ARENA_SIZE)

/* Call `visit` with the start of each arena that has free pools, and the first of these. */
static inline void
cpy_each_arena(void (*visit)(uintptr_t start, cpy_pool *free_pools, void *arg), void *arg)
{
    const struct _obmalloc_mgmt *state = &PyInterpreterState_Get()->obmalloc->mgmt;
    for (unsigned int i = 0; i < state->maxarenas; i++) {
        const struct arena_object *arena = &state->arenas[i];
        if (arena->address != 0 && arena->freepools != NULL) {
            visit(arena->address, arena->freepools, arg);
        }
    }
}

/* Have a free pool set up anew when it is next taken, whatever its blocks hold by then. */
static inline void
cpy_pool_forget_class(cpy_pool *pool)
{
    pool->szidx = DUMMY_SIZE_IDX;
}
#else
#  define CPY_HAS_ARENAS 0
#endif

/* Name of the allocator behind PyObject_Malloc ("pymalloc", "malloc", ...), or NULL
   where hooks are in the way (tracemalloc). */
PyAPI_FUNC(const char *) _PyMem_GetCurrentAllocatorName(void);

static inline const char *
cpy_allocator_name(void)
{
    return _PyMem_GetCurrentAllocatorName();
}

/* --- Exceptions --------------------------------------------------------------------- */

/* Before 3.12 an exception that meets no handler on its way out never becomes an instance. */
#define CPY_HAS_BARE_EXCEPTIONS (PY_VERSION_HEX < 0x030C0000)

/* --- atexit ------------------------------------------------------------------------- */

/* Make the callback that was registered last the one that runs last of all.
   Returns 0, or -1 with an exception set and the order unchanged. */
static inline int
cpy_atexit_last_to_bottom(void)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    /* A list in the order of execution: the newest entry stands first. */
    PyObject *entry = Py_NewRef(PyList_GET_ITEM(state->callbacks, 0));
    int err = PyList_Append(state->callbacks, entry);
    Py_DECREF(entry);
    return err < 0 ? -1 : PyList_SetSlice(state->callbacks, 0, 1, NULL);
#else
    /* An array run from its end to its start. */
    for (int i = state->ncallbacks - 1; i > 0; i--) {
        void *upper = state->callbacks[i];
        memcpy(&state->callbacks[i], &state->callbacks[i - 1], sizeof upper);
        memcpy(&state->callbacks[i - 1], &upper, sizeof upper);
    }
    return 0;
#endif
}

static inline Py_ssize_t
cpy_atexit_count(void)
{
    struct atexit_state *state = &PyInterpreterState_Get()->atexit;
#if PY_VERSION_HEX >= 0x030E0000
    return PyList_GET_SIZE(state->callbacks);
#else
    return state->ncallbacks;
#endif
}

#endif /* CPY_UNSUPPORTED */
#endif
