/* Objects that break what one may believe of all objects. Each type has the same fields and the
 * same methods; what is odd about it is said at its slots.
 *
 * hold(obj), held(): one strong reference, which tp_traverse visits (but where it says else).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define GC_HEAD_BYTES 16

typedef struct {
    PyObject_VAR_HEAD
    PyObject *held;
    PyObject *second; /* another reference to the same object, or NULL */
    PyObject *borrowed;
    PyObject *weakrefs;
} creature;

#define CREATURE(op) ((creature *)(op))

/* --- What they have in common --------------------------------------------------------- */

static void dealloc(PyObject *self);

/* Made from a specification: such instances own a reference to their type. Those of a class
   made in Python do too, but there it is the class's slots that visit it and let it go. */
static int
owns_its_type(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_dealloc == dealloc;
}

static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(CREATURE(self)->held);
    Py_VISIT(CREATURE(self)->second);
    if (owns_its_type(Py_TYPE(self))) {
        Py_VISIT(Py_TYPE(self));
    }
#if PY_VERSION_HEX >= 0x030D0000
    if (PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_MANAGED_DICT)) {
        return PyObject_VisitManagedDict(self, visit, arg);
    }
#endif
    return 0;
}

static int
clear(PyObject *self)
{
    Py_CLEAR(CREATURE(self)->held);
    Py_CLEAR(CREATURE(self)->second);
#if PY_VERSION_HEX >= 0x030D0000
    if (PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_MANAGED_DICT)) {
        PyObject_ClearManagedDict(self);
    }
#endif
    return 0;
}

static PyObject *
make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    Py_ssize_t items = 0;
    if (!PyArg_ParseTuple(args, "|n", &items)) {
        return NULL;
    }
    return type->tp_alloc(type, type->tp_itemsize ? items : 0);
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC)) {
        PyObject_GC_UnTrack(self);
    }
    if (CREATURE(self)->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    (void)clear(self);
    type->tp_free(self);
    if (owns_its_type(type)) {
        Py_DECREF(type);
    }
}

static PyObject *
hold(PyObject *self, PyObject *object)
{
    Py_XSETREF(CREATURE(self)->held, Py_NewRef(object));
    Py_RETURN_NONE;
}

static PyObject *
hold_twice(PyObject *self, PyObject *object)
{
    Py_XSETREF(CREATURE(self)->second, Py_NewRef(object));
    return hold(self, object);
}

static PyObject *
borrow(PyObject *self, PyObject *object)
{
    CREATURE(self)->borrowed = object;
    Py_RETURN_NONE;
}

static PyObject *
held(PyObject *self, PyObject *none)
{
    PyObject *object = CREATURE(self)->held;
    return Py_NewRef(object != NULL ? object : Py_None);
}

static PyMethodDef methods[] = {
    {"hold", hold, METH_O, NULL},
    {"hold_twice", hold_twice, METH_O, NULL},
    {"borrow", borrow, METH_O, NULL},
    {"held", held, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define COMMON(type_name) \
    PyVarObject_HEAD_INIT(NULL, 0) \
    .tp_name = "zoo." type_name, \
    .tp_basicsize = sizeof(creature), \
    .tp_new = make, \
    .tp_dealloc = dealloc, \
    .tp_methods = methods, \
    .tp_weaklistoffset = offsetof(creature, weakrefs)

#define COMMON_CONTAINER(type_name) \
    COMMON(type_name), \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, \
    .tp_clear = clear

/* --- Where they lie --------------------------------------------------------------------- */

static int offset_in_16_bytes; /* of objects that are placed */
static char *arena, *arena_end;

/* Memory of our own, at any multiple of 4: CPython's headers ask for no more. */
static PyObject *
place(PyTypeObject *type, Py_ssize_t items)
{
    size_t bytes = GC_HEAD_BYTES + (size_t)type->tp_basicsize;
    if (arena == NULL || arena + bytes + 32 > arena_end) {
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (arena == MAP_FAILED) {
            arena = NULL;
            return PyErr_NoMemory();
        }
        arena_end = arena + ARENA_BYTES;
    }
    char *memory = (char *)(((uintptr_t)arena + 15) & ~(uintptr_t)15) + offset_in_16_bytes;
    arena = memory + bytes;
    PyObject *self = (PyObject *)(memory + GC_HEAD_BYTES);
    PyObject_Init(self, type);
    PyObject_GC_Track(self);
    return self;
}

static void
leave_in_place(void *Py_UNUSED(memory))
{
}

/* From malloc, past CPython's allocators. */
static PyObject *
take_from_malloc(PyTypeObject *type, Py_ssize_t items)
{
    char *memory = calloc(1, GC_HEAD_BYTES + (size_t)type->tp_basicsize);
    if (memory == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *self = (PyObject *)(memory + GC_HEAD_BYTES);
    PyObject_Init(self, type);
    PyObject_GC_Track(self);
    return self;
}

static void
give_to_malloc(void *self)
{
    free((char *)self - GC_HEAD_BYTES);
}

static PyTypeObject placed_type = {
    COMMON_CONTAINER("Placed"),
    .tp_traverse = traverse,
    .tp_alloc = place,
    .tp_free = leave_in_place,
};

static PyTypeObject from_malloc_type = {
    COMMON_CONTAINER("FromMalloc"),
    .tp_traverse = traverse,
    .tp_alloc = take_from_malloc,
    .tp_free = give_to_malloc,
};

/* --- What they show the collector ------------------------------------------------------- */

static int
traverse_nothing(PyObject *self, visitproc visit, void *arg)
{
    return 0;
}

static int
traverse_borrowed(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(CREATURE(self)->held);
    Py_VISIT(CREATURE(self)->borrowed); /* not ours: a mistake, and a common one */
    return 0;
}

static int
traverse_deaf(PyObject *self, visitproc visit, void *arg)
{
    if (CREATURE(self)->held != NULL) {
        (void)visit(CREATURE(self)->held, arg); /* a mistake: what it returns is lost */
    }
    return 0;
}

static PyTypeObject plain_type = {COMMON_CONTAINER("Plain"), .tp_traverse = traverse};
static PyTypeObject silent_type = {COMMON_CONTAINER("Silent"), .tp_traverse = traverse_nothing};
static PyTypeObject borrower_type = {COMMON_CONTAINER("Borrower"), .tp_traverse = traverse_borrowed};
static PyTypeObject deaf_type = {COMMON_CONTAINER("Deaf"), .tp_traverse = traverse_deaf};
static PyTypeObject no_container_type = {
    COMMON("NoContainer"), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE};

/* --- How they end ------------------------------------------------------------------------ */

static PyObject *graveyard; /* a list: what would not stay dead */

static void
finalize(PyObject *self)
{
    (void)PyList_Append(graveyard, self);
}

static void
finalize_and_dealloc(PyObject *self)
{
    if (PyObject_CallFinalizerFromDealloc(self) == 0) {
        dealloc(self);
    }
}

static PyTypeObject phoenix_type = {
    COMMON("Phoenix"),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_finalize = finalize,
};

static PyTypeObject no_clear_type = {
    COMMON("NoClear"),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_traverse = traverse,
};

/* --- How large they are -------------------------------------------------------------------- */

static PyTypeObject items_type = {
    COMMON_CONTAINER("Items"), .tp_traverse = traverse, .tp_itemsize = 8};

static PyObject *
make_negative(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *self = make(type, args, keywords);
    if (self != NULL) {
        Py_SET_SIZE(self, -Py_SIZE(self)); /* as integers were, with their sign there */
    }
    return self;
}

static PyTypeObject negative_type = {
    COMMON_CONTAINER("Negative"), .tp_traverse = traverse, .tp_itemsize = 8};

/* No container, and in C alone it is known that it holds a buffer. */
typedef struct {
    PyObject_HEAD
    Py_buffer view;
} viewer;

static PyObject *
make_viewer(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *below;
    viewer *self = PyArg_ParseTuple(args, "O", &below) ? (viewer *)type->tp_alloc(type, 0) : NULL;
    if (self != NULL && PyObject_GetBuffer(below, &self->view, PyBUF_SIMPLE) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void
release_viewer(PyObject *self)
{
    PyBuffer_Release(&((viewer *)self)->view);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject viewer_type = {
    .ob_base = PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zoo.Viewer",
    .tp_basicsize = sizeof(viewer),
    .tp_new = make_viewer,
    .tp_dealloc = release_viewer,
};

/* --- Types that are made at run time -------------------------------------------------------- */

static PyType_Slot heap_slots[] = {
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Slot bare_slots[] = {
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

/* make_type(name, flags, itemsize) -> type */
static PyObject *
make_type(PyObject *module, PyObject *args)
{
    const char *name;
    unsigned int flags;
    int itemsize;
    if (!PyArg_ParseTuple(args, "sIi", &name, &flags, &itemsize)) {
        return NULL;
    }
    PyType_Spec spec = {
        .name = strdup(name),
        .basicsize = sizeof(creature),
        .itemsize = itemsize,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | flags,
        .slots = flags & Py_TPFLAGS_HAVE_GC ? heap_slots : bare_slots,
    };
    return PyType_FromSpec(&spec);
}

/* --- What is done to them by hand ------------------------------------------------------------- */

static PyObject *
set_offset(PyObject *module, PyObject *bytes)
{
    offset_in_16_bytes = (int)PyLong_AsLong(bytes);
    Py_RETURN_NONE;
}

static PyObject *
set_count(PyObject *module, PyObject *args)
{
    PyObject *op;
    long long count;
    if (!PyArg_ParseTuple(args, "OL", &op, &count)) {
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030E0000
    *(uint32_t *)op = (uint32_t)count;
#else
    *(Py_ssize_t *)op = (Py_ssize_t)count;
#endif
    Py_RETURN_NONE;
}

static PyObject *
untrack(PyObject *module, PyObject *op)
{
    PyObject_GC_UnTrack(op);
    Py_RETURN_NONE;
}

static PyObject *
track(PyObject *module, PyObject *op)
{
    PyObject_GC_Track(op);
    Py_RETURN_NONE;
}

/* Whether the instances of a type are containers, while there are some. */
static PyObject *
set_has_gc(PyObject *module, PyObject *args)
{
    PyTypeObject *type;
    int on;
    if (!PyArg_ParseTuple(args, "Op", &type, &on)) {
        return NULL;
    }
    if (on) {
        type->tp_flags |= Py_TPFLAGS_HAVE_GC;
    }
    else {
        type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
    }
    Py_RETURN_NONE;
}

/* Objects that are part of the program: each stands at 8 mod 16, as CPython's own may. */
typedef struct {
    int64_t shift;
    creature object;
} static_slot;

#define STATIC_OBJECTS 200
static static_slot statics[STATIC_OBJECTS] __attribute__((aligned(16)));

static PyObject *
static_objects(PyObject *module, PyObject *none)
{
    PyObject *list = PyList_New(STATIC_OBJECTS);
    for (Py_ssize_t i = 0; list != NULL && i < STATIC_OBJECTS; i++) {
        PyObject *op = (PyObject *)&statics[i].object;
        if (Py_TYPE(op) == NULL) {
            PyObject_Init(op, &no_container_type);
        }
        PyList_SET_ITEM(list, i, Py_NewRef(op));
    }
    return list;
}

static PyMethodDef functions[] = {
    {"make_type", make_type, METH_VARARGS, NULL},
    {"set_offset", set_offset, METH_O, NULL},
    {"set_count", set_count, METH_VARARGS, NULL},
    {"untrack", untrack, METH_O, NULL},
    {"track", track, METH_O, NULL},
    {"set_has_gc", set_has_gc, METH_VARARGS, NULL},
    {"static_objects", static_objects, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "zoo", .m_size = -1, .m_methods = functions};

static PyTypeObject *const types[] = {
    &placed_type, &from_malloc_type, &plain_type, &silent_type, &borrower_type, &deaf_type,
    &no_container_type, &phoenix_type, &no_clear_type, &items_type, &negative_type, &viewer_type,
};

PyMODINIT_FUNC
PyInit_zoo(void)
{
    phoenix_type.tp_dealloc = finalize_and_dealloc;
    negative_type.tp_new = make_negative;
    PyObject *module = PyModule_Create(&definition);
    graveyard = PyList_New(0);
    if (module == NULL || PyModule_AddObjectRef(module, "graveyard", graveyard) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            return NULL;
        }
    }
    return module;
}
