/* The records themselves are the queue of the walk: those before `next` have been followed.
 *
 * Invariant: a record's owner stands before it.
 */
#define _GNU_SOURCE
#include "census.h"

#ifndef CPY_UNSUPPORTED

#include "reach.h"
#include "types.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_RECORDS ((size_t)1 << 16)

/* The addresses seen, one bit for each 16 bytes, since no two records start within the same
   16: a directory of leaves that are mapped when first needed. */
#define GRANULE_BITS 4
#define LEAF_BITS 26 /* log2 of the bytes that a leaf covers */
#define LEAF_WORDS ((size_t)1 << (LEAF_BITS - GRANULE_BITS - 6))
#define LEAVES ((size_t)1 << (48 - LEAF_BITS))

typedef struct {
    census_record *records;
    size_t count, capacity;
    size_t next;     /* the first record that is not followed yet */
    uint32_t owner;  /* of records that are added */
    uint64_t **seen; /* LEAVES entries */
} census;

/* Zeroed memory from the system, backed as it is written. Returns 0 or errno. */
static int
map_memory(void **memory, size_t bytes)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return errno;
    }
    *memory = mapped;
    return 0;
}

static int
grow(census *all)
{
    size_t old_bytes = all->capacity * sizeof *all->records;
    void *mapped = mremap(all->records, old_bytes, old_bytes * 2, MREMAP_MAYMOVE);
    if (mapped == MAP_FAILED) {
        return errno;
    }
    all->records = mapped;
    all->capacity *= 2;
    return 0;
}

/* Whether nothing was recorded at this address so far. Returns 0, 1 or -ENOMEM. */
static int
is_new(census *all, const void *start)
{
    uint64_t **leaf = &all->seen[((uintptr_t)start >> LEAF_BITS) & (LEAVES - 1)];
    if (*leaf == NULL && map_memory((void **)leaf, LEAF_WORDS * sizeof **leaf) != 0) {
        return -ENOMEM;
    }
    uintptr_t granule = (uintptr_t)start >> GRANULE_BITS;
    uint64_t *word = &(*leaf)[granule / 64 % LEAF_WORDS];
    uint64_t bit = (uint64_t)1 << granule % 64;
    if (*word & bit) {
        return 0;
    }
    *word |= bit;
    return 1;
}

static int
add(census *all, const void *start, census_record record)
{
    int fresh = is_new(all, start);
    if (fresh <= 0) {
        return -fresh;
    }
    if (all->count == all->capacity || all->count >= CENSUS_NO_OWNER) {
        int err = all->count >= CENSUS_NO_OWNER ? EOVERFLOW : grow(all);
        if (err) {
            return err;
        }
    }
    record.address = (uintptr_t)start;
    record.owner = all->owner;
    all->records[all->count++] = record;
    return 0;
}

static int
add_object(PyObject *op, void *arg)
{
    return add(arg, op,
               (census_record){.type = (uintptr_t)Py_TYPE(op),
                               .bytes = cpy_object_bytes(op),
                               .kind = CPY_OBJECT,
                               .prefix = (uint16_t)cpy_prefix_bytes(op)});
}

static int
add_storage(cpy_kind kind, const void *start, size_t bytes, void *arg)
{
    return add(arg, start, (census_record){.bytes = bytes, .kind = (uint16_t)kind});
}

/* Follow every record that is not followed yet, and those that this adds. */
static int
follow(census *all)
{
    int err = 0;
    for (; all->next < all->count && !err; all->next++) {
        census_record *record = &all->records[all->next];
        if (record->kind != CPY_OBJECT) {
            continue;
        }
        PyObject *op = (PyObject *)(uintptr_t)record->address;
        all->owner = (uint32_t)all->next;
        err = add_object((PyObject *)Py_TYPE(op), all);
        if (!err) {
            err = cpy_each_storage(op, add_storage, all);
        }
        if (!err && reach_has_referents(op)) {
            err = reach_visit(op, add_object, all);
        }
    }
    all->owner = CENSUS_NO_OWNER;
    return err;
}

static int
add_type(PyTypeObject *type, void *arg)
{
    return add_object((PyObject *)type, arg);
}

static int
add_list(census *all, PyGC_Head *list)
{
    int err = 0;
    for (PyGC_Head *gc = cpy_gc_next(list); gc != list && !err; gc = cpy_gc_next(gc)) {
        err = add_object(cpy_gc_object(gc), all);
        if (!err) {
            err = follow(all); /* before the next: what it leads to has it as its owner */
        }
    }
    return err;
}

static int
add_lists(census *all)
{
    struct _gc_runtime_state *state = cpy_gc_state();
    int err = add_list(all, cpy_gc_permanent(state));
    for (int i = 0; i < CPY_GENERATIONS && !err; i++) {
        err = add_list(all, cpy_gc_generation(state, i));
    }
    return err;
}

static int
walk(census *all, PyObject *types)
{
    int err = add_object(PyImport_GetModuleDict(), all);
    if (!err) {
        err = follow(all);
    }
    if (!err) {
        cpy_roots_visit(add_object, all);
        err = follow(all);
    }
    if (!err) {
        err = types_each(types, add_type, all);
    }
    if (!err) {
        err = follow(all);
    }
    return err ? err : add_lists(all);
}

static int
write_all(int fd, const char *from, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(fd, from, bytes);
        if (done < 0 && errno != EINTR) {
            return errno;
        }
        if (done > 0) {
            from += done;
            bytes -= (size_t)done;
        }
    }
    return 0;
}

static int
start(census *all)
{
    all->owner = CENSUS_NO_OWNER;
    int err = map_memory((void **)&all->seen, LEAVES * sizeof *all->seen);
    if (!err) {
        err = map_memory((void **)&all->records, FIRST_RECORDS * sizeof *all->records);
        all->capacity = err ? 0 : FIRST_RECORDS;
    }
    return err;
}

static void
release(census *all)
{
    if (all->seen != NULL) {
        for (size_t i = 0; i < LEAVES; i++) {
            if (all->seen[i] != NULL) {
                (void)munmap(all->seen[i], LEAF_WORDS * sizeof **all->seen);
            }
        }
        (void)munmap(all->seen, LEAVES * sizeof *all->seen);
    }
    if (all->capacity) {
        (void)munmap(all->records, all->capacity * sizeof *all->records);
    }
}

Py_ssize_t
census_write(int fd)
{
    PyObject *types = types_all();
    if (types == NULL) {
        return -1;
    }
    census all = {0};
    int err = start(&all);
    if (!err) {
        err = walk(&all, types);
    }
    if (!err) {
        err = write_all(fd, (const char *)all.records, all.count * sizeof *all.records);
    }
    release(&all);
    Py_DECREF(types);
    if (err) {
        errno = err;
        err == ENOMEM ? PyErr_NoMemory() : PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return (Py_ssize_t)all.count;
}

#endif
