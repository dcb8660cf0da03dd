/* Compares addresses of slots with the code of loaded libraries, and names with the list.
 *
 * The list is an allow list: what it lacks costs the pages of its own objects, what is on it wrongly is
 * never given back. `tools/memory-types` shows the types of many packages, and which rows they match.
 * Rows are types, not whole libraries: a KDTree of scikit-learn and a numpy.broadcast hold a buffer out
 * of sight.
 *
 * Owns a weak reference to each registered type: a strong one would keep names of its module at the end.
 */
#define _GNU_SOURCE
#include "memory_types.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* The interpreter's own, and each module of the standard library. */
#define RANGES_MAX 256

typedef struct {
    uintptr_t first, end;
} range;

static struct {
    range items[RANGES_MAX];
    size_t count;
} own_code;

static struct {
    PyObject **refs;
    size_t count;
} registered;

typedef struct {
    const char *name; /* tp_name; after a star, what is somewhere in its rest */
    const char
        *library; /* what the path of the library that frees the objects contains; NULL: any */
    const char *reason; /* what the objects are besides memory of their own */
} row;

static const row rows[] = {
    {"_cython_*", NULL, "functions of Cython: code, defaults and closure are visited"},
    {"*.__pyx_defaults", NULL, "default values of a function of Cython, which owns them"},
    {"numpy.ndarray", NULL, "memory; what it is a view of is its base, which makes it an owner"},
    {"numpy.generic", NULL,
     "a number; the types derived from it add none of their own, but void and object_"},
    {"numpy.float64", NULL, "a number"},
    {"numpy.bytes_", NULL, "bytes"},
    {"numpy.str_", NULL, "text, and a copy of it"},
    {"numpy.dtype", NULL, "names and types of fields, and numbers"},
    {"numpy.ufunc", NULL, "tables of functions, which live as long as their module"},
    {"numpy._ArrayMethod", NULL, "a table of functions"},
    {"numpy._BoundArrayMethod", NULL, "a table of functions, and types"},
    {"numpy._ArrayFunctionDispatcher", NULL, "two functions"},
    {"numpy.random.bit_generator.BitGenerator", NULL,
     "pointers into itself; a lock and a seed, which are visited"},
    {"numpy.random.bit_generator.SeedSequence", NULL, "numbers and arrays, which are visited"},
    {"numpy.random._mt19937.MT19937", NULL, "a state, which lies in the object"},
    {"numpy.random._pcg64.PCG64", NULL, "a state, which it has allocated for itself"},
    {"numpy.random._pcg64.PCG64DXSM", NULL, "the same"},
    {"numpy.random._philox.Philox", NULL, "a state, which lies in the object"},
    {"numpy.random._sfc64.SFC64", NULL, "a state, which lies in the object"},
    {"numpy.random.mtrand.RandomState", NULL,
     "pointers into its bit generator, which is visited, and a lock"},
    {"numpy.random._generator.Generator", NULL, "the same"},
    {"fortran", NULL, "functions and data of a module that f2py made"},
    {"pandas._libs.tslibs.timestamps._Timestamp", NULL, "numbers and a time zone"},
    {"pandas._libs.tslibs.timedeltas._Timedelta", NULL, "numbers"},
    {"pandas._libs.tslibs.period._Period", NULL, "a number and an offset"},
    {"pandas._libs.tslibs.nattype._NaT", NULL, "a number"},
    {"pandas._libs.tslibs.offsets.BaseOffset", NULL, "numbers and a dictionary, which is visited"},
    {"pandas._libs.tslibs.nattype.__pyx_scope_struct___make_error_func", NULL,
     "variables of a function, which are visited"},
    {"pandas._libs.tslibs.offsets.__pyx_scope_struct__apply_wraps", NULL, "the same"},
    {"pandas._libs.tslibs.timedeltas.__pyx_scope_struct_*binary_op_method", NULL, "the same"},
    {"pandas._libs.tslibs.timedeltas.__pyx_scope_struct_*op_unary_method", NULL, "the same"},
    {"pandas._libs.missing.__pyx_scope_struct___create_binary_propagating_op", NULL, "the same"},
    {"pandas._libs.internals.*", NULL, "arrays, axes and slices, which are visited"},
    {"pandas._libs.arrays.NDArrayBacked", NULL, "an array and its type, which are visited"},
    {"pandas._libs.properties.*", NULL, "names and functions"},
    {"sqlalchemy.*", NULL, "dictionaries, rows and counters, which are visited"},
    {"lxml.etree._Element", NULL, "a node of its document, which is visited"},
    {"lxml.etree._ElementTree", NULL, "a document and an element, which are visited"},
    {"lxml.etree._Document", NULL, "a tree in memory, and its parser, which is visited"},
    {"pydantic_core._pydantic_core.SchemaValidator", NULL, "a schema, whose objects are visited"},
    {"pydantic_core._pydantic_core.SchemaSerializer", NULL, "a schema, whose objects are visited"},
    {"pydantic_core._pydantic_core.Url", NULL, "text"},
    {"pydantic_core._pydantic_core.TzInfo", NULL, "a number"},
    {"Struct", "/msgspec/_core.", "fields, which are visited"},
    {"multidict._multidict.*", NULL, "keys and values, which are visited"},
    {"propcache._helpers_c.*", NULL, "functions and names, which are visited"},
    {"_wrappers.*", "/wrapt/", "what is wrapped and its wrapper, which are visited"},
    {"ObjectProxy", "/wrapt/", "the same, before wrapt 2"},
    {"_FunctionWrapperBase", "/wrapt/", "the same, before wrapt 2"},
    {"_zope_interface_coptimizations.*", NULL, "interfaces and caches, which are visited"},
    {"BTrees.*", NULL, "keys and values, which are visited"},
    {"persistent.Persistent", NULL, "a place in the cache of its connection, which is visited"},
    {"charset_normalizer.*", NULL, "numbers and text"},
    {"_regex.Pattern", NULL, "compiled code, and text"},
    {"shapely.lib.Geometry", NULL, "coordinates"},
    {"asyncpg.protocol.record.Record", NULL, "values, which are visited"},
    {"asyncpg.protocol.record.RecordDescriptor", NULL, "names, which are visited"},
    {"asyncpg.protocol.protocol.Codec", NULL, "functions and types, which are visited"},
    {"h5py._objects.__pyx_scope_struct__with_phil", NULL, "a function, which is visited"},
    {"pyarrow._compute.Function", NULL, "a function of the registry, which never goes"},
    {"cryptography.hazmat.bindings._rust.ObjectIdentifier", NULL, "a number"},
    {"_cffi_backend.CType", NULL, "a type of C: sizes, fields and names"},
    {"_cffi_backend.CField", NULL, "a place in a structure, and its type"},
    {"pybind11_builtins.pybind11_detail_function_record_*", NULL,
     "a function, which lives as long as its module"},
};

/* A library at a time. */
static int
add_own_code(struct dl_phdr_info *library, size_t Py_UNUSED(bytes), void *Py_UNUSED(arg))
{
    /* An exported function may have an address in the program that was linked with it. */
    uintptr_t in_interpreter = (uintptr_t)PyBaseObject_Type.tp_dealloc;
    bool is_own = strstr(library->dlpi_name, "/lib-dynload/") != NULL;
    size_t known = own_code.count;
    for (size_t i = 0; i < library->dlpi_phnum && own_code.count < RANGES_MAX; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            uintptr_t first = library->dlpi_addr + part->p_vaddr;
            range code = {first, first + part->p_memsz};
            is_own = is_own || (in_interpreter >= code.first && in_interpreter < code.end);
            own_code.items[own_code.count++] = code;
        }
    }
    if (!is_own) {
        own_code.count = known;
    }
    return 0;
}

void
memory_types_prepare(void)
{
    own_code.count = 0;
    (void)dl_iterate_phdr(add_own_code, NULL);
}

static bool
is_own(uintptr_t code)
{
    for (size_t i = 0; i < own_code.count; i++) {
        if (code >= own_code.items[i].first && code < own_code.items[i].end) {
            return true;
        }
    }
    return false;
}

/* Whether a function that frees objects is the type's own, and from outside. */
static bool
is_foreign(uintptr_t function, uintptr_t of_base)
{
    return function != 0 && function != of_base && !is_own(function);
}

bool
memory_types_is_foreign(PyTypeObject *type)
{
    PyTypeObject *base = type->tp_base;
    return is_foreign((uintptr_t)type->tp_dealloc, base ? (uintptr_t)base->tp_dealloc : 0)
           || is_foreign((uintptr_t)type->tp_free, base ? (uintptr_t)base->tp_free : 0);
}

static bool
is_in_library(PyTypeObject *type, const char *part)
{
    Dl_info found;
    return dladdr((void *)type->tp_dealloc, &found) != 0 && strstr(found.dli_fname, part) != NULL;
}

static bool
has_name(PyTypeObject *type, const char *listed)
{
    size_t length = strcspn(listed, "*");
    if (strncmp(listed, type->tp_name, length) != 0) {
        return false;
    }
    const char *rest = type->tp_name + length;
    return listed[length] == '*' ? strstr(rest, listed + length + 1) != NULL : *rest == '\0';
}

static bool
matches(const row *listed, PyTypeObject *type)
{
    return has_name(type, listed->name)
           && (listed->library == NULL || is_in_library(type, listed->library));
}

bool
memory_types_is_listed(PyTypeObject *type)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(rows); i++) {
        if (matches(&rows[i], type)) {
            return true;
        }
    }
    return false;
}

bool
memory_types_is_registered(PyTypeObject *type)
{
    for (size_t i = 0; i < registered.count; i++) {
        PyObject *target = cpy_weakref_target(registered.refs[i]);
        Py_XDECREF(target);
        if (target == (PyObject *)type) {
            return true;
        }
    }
    return false;
}

PyObject *
memory_types_list(void)
{
    PyObject *list = PyTuple_New(Py_ARRAY_LENGTH(rows));
    for (size_t i = 0; list != NULL && i < Py_ARRAY_LENGTH(rows); i++) {
        PyObject *item = Py_BuildValue("(szs)", rows[i].name, rows[i].library, rows[i].reason);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyTuple_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

int
memory_types_register(PyTypeObject *type)
{
    if (memory_types_is_registered(type)) {
        return 0;
    }
    size_t bytes = (registered.count + 1) * sizeof *registered.refs;
    PyObject **more = PyMem_RawRealloc(registered.refs, bytes);
    if (more == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    registered.refs = more;
    PyObject *ref = PyWeakref_NewRef((PyObject *)type, NULL);
    if (ref == NULL) {
        return -1;
    }
    more[registered.count++] = ref;
    return 0;
}

void
memory_types_forget(void)
{
    PyMem_RawFree(registered.refs);
    registered.refs = NULL;
    registered.count = 0;
}

#else

void
memory_types_forget(void)
{
}

#endif
#endif
