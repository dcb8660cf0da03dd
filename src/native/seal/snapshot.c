/* The walk that makes the records, and writes them.
 *
 * The array of records is itself the queue of the walk: those before `next` have been followed. A
 * bitmap shows which addresses have a record.
 *
 * Invariant: a record's owner comes before it.
 */
#define _GNU_SOURCE
#include "snapshot.h"

#ifndef CPY_UNSUPPORTED

#include "../gc/mark_bits.h"
#include "../process/scratch.h"
#include "containers.h"
#include "referents.h"
#include "types.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_RECORDS ((size_t)1 << 16)

typedef struct {
    snapshot_record *records;
    size_t count, capacity;
    size_t next;              /* the first record that is not followed yet */
    uint32_t owner;           /* of records that are added */
    mark_bits seen;           /* marked: where a record starts */
    scratch_stack containers; /* their records' indexes */
    containers_lookup lookup;
} snapshot;

static int
grow(snapshot *all)
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
is_new(snapshot *all, const void *start)
{
    mark_bits_leaf *leaf = mark_bits_leaf_for(&all->seen, start);
    if (leaf == NULL) {
        return -ENOMEM;
    }
    uint64_t *word = &leaf->marked[mark_bits_word_index(start)];
    if (*word & mark_bits_mask(start)) {
        return 0;
    }
    *word |= mark_bits_mask(start);
    return 1;
}

/* Add a record for `start`, unless it has one. Returns 0 or errno. */
static int
add(snapshot *all, const void *start, snapshot_record record)
{
    int fresh = is_new(all, start);
    if (fresh <= 0) {
        return -fresh;
    }
    /* not reached: more objects than 32 bits number */
    if (all->count == all->capacity || all->count >= SNAPSHOT_NO_OWNER) {
        /* not reached: more objects than 32 bits number */
        int err = all->count < SNAPSHOT_NO_OWNER ? grow(all) : EOVERFLOW;
        if (err) {
            return err;
        }
    }
    record.address = (uintptr_t)start;
    record.owner = all->owner;
    all->records[all->count++] = record;
    return 0;
}

static PyObject *
object_of(const snapshot *all, size_t record)
{
    return (PyObject *)(uintptr_t)all->records[record].address;
}

static int
add_object(PyObject *op, void *arg)
{
    return add(arg, op,
               (snapshot_record){.type = (uintptr_t)Py_TYPE(op),
                                 .bytes = cpy_object_bytes(op),
                                 .kind = CPY_OBJECT,
                                 .prefix = (uint16_t)cpy_prefix_bytes(op)});
}

static int
add_storage(cpy_kind kind, const void *start, size_t bytes, void *arg)
{
    return add(arg, start, (snapshot_record){.bytes = bytes, .kind = (uint16_t)kind});
}

/* Held until its items were asked for: an item that is a container may exist for its visit alone. */
static int
add_container(snapshot *all, PyObject *op)
{
    int err = scratch_stack_push(&all->containers, (void *)all->next);
    if (!err) {
        Py_INCREF(op);
    }
    return err;
}

/* Follow every record that is not followed yet, and those that this adds. */
static int
follow(snapshot *all)
{
    int err = 0;
    for (; all->next < all->count && !err; all->next++) {
        snapshot_record *record = &all->records[all->next];
        if (record->kind != CPY_OBJECT) {
            continue;
        }
        PyObject *op = object_of(all, all->next);
        all->owner = (uint32_t)all->next;
        err = add_object((PyObject *)Py_TYPE(op), all);
        if (!err) {
            err = cpy_each_storage(op, add_storage, all);
        }
        if (!err && referents_may_exist(op)) {
            err = referents_visit(op, add_object, all);
        }
        if (!err && containers_is_known(&all->lookup, Py_TYPE(op))) {
            err = add_container(all, op);
        }
    }
    all->owner = SNAPSHOT_NO_OWNER;
    return err;
}

static int
add_type(PyTypeObject *type, void *arg)
{
    return add_object((PyObject *)type, arg);
}

/* Followed before the next: what it leads to has it as its owner. */
static int
add_listed(PyObject *op, void *all)
{
    int err = add_object(op, all);
    return err ? err : follow(all);
}

/* The item is followed while it is held: it may exist for this visit alone. */
static int
add_item(PyObject *item, void *arg)
{
    snapshot *all = arg;
    uint32_t owner = all->owner;
    int err = add_object(item, all);
    err = err ? err : follow(all);
    all->owner = owner;
    return err;
}

/* Last of all: Python code runs, and may allocate. The seal has reported failures. Returns 0, errno, or -1 with
   an exception set. */
static int
add_containers(snapshot *all)
{
    int err = 0;
    for (size_t i = 0; i < all->containers.count && !err; i++) {
        bool failed;
        all->owner = (uint32_t)(uintptr_t)all->containers.items[i];
        err = containers_visit(object_of(all, all->owner), add_item, all, &failed);
        all->lookup = (containers_lookup){0};
    }
    all->owner = SNAPSHOT_NO_OWNER;
    return err;
}

/* Modules first, then other roots, then types, then the lists: the owner of an object is found in
   that order. Returns as add_containers(). */
static int
walk(snapshot *all, PyObject *types)
{
    int err = add_object(PyImport_GetModuleDict(), all);
    if (!err) {
        err = follow(all);
    }
    if (!err) {
        cpy_roots_visit(PyImport_GetModuleDict(), add_object, all);
        err = follow(all);
    }
    if (!err) {
        err = types_each(types, add_type, all);
    }
    if (!err) {
        err = follow(all);
    }
    if (!err) {
        err = cpy_gc_visit_all(add_listed, all);
    }
    return err ? err : add_containers(all);
}

/* Returns 0 or errno. */
static int
write_all(int fd, const char *from, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(fd, from, bytes);
        if (done >= 0) {
            from += done;
            bytes -= (size_t)done;
        }
        else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static int
start(snapshot *all)
{
    all->owner = SNAPSHOT_NO_OWNER;
    int err = mark_bits_init(&all->seen);
    if (!err) {
        err = scratch_map((void **)&all->records, FIRST_RECORDS * sizeof *all->records);
        all->capacity = err ? 0 : FIRST_RECORDS;
    }
    return err;
}

static void
release(snapshot *all)
{
    if (all->seen.tables != NULL) {
        mark_bits_release(&all->seen);
    }
    while (all->containers.count) {
        Py_DECREF(object_of(all, (size_t)scratch_stack_pop(&all->containers)));
    }
    scratch_stack_release(&all->containers);
    if (all->capacity) {
        scratch_unmap(all->records, all->capacity * sizeof *all->records);
    }
}

Py_ssize_t
snapshot_write(int fd)
{
    PyObject *types = types_all();
    if (types == NULL) {
        return -1;
    }
    snapshot all = {0};
    int err = start(&all);
    if (!err) {
        err = walk(&all, types);
    }
    if (!err) {
        err = write_all(fd, (const char *)all.records, all.count * sizeof *all.records);
    }
    release(&all);
    Py_DECREF(types);
    if (err > 0) {
        errno = err;
        err == ENOMEM ? PyErr_NoMemory() : PyErr_SetFromErrno(PyExc_OSError);
    }
    return err ? -1 : (Py_ssize_t)all.count;
}

#endif
