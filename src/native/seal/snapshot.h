/* A snapshot of the heap: what lies where, written to a file for a reader in another process.
 *
 * Each record is an object, or a piece of memory that an object owns. Records are in the order in
 * which a breadth-first walk came to them, so the first way to an object is a shortest one, and
 * `owner` leads back along it. The walk starts at the interpreter's modules and ends with what only
 * the collector's lists know.
 */
#ifndef PASTURE_SNAPSHOT_H
#define PASTURE_SNAPSHOT_H

#include "../cpython/cpython.h"

#define SNAPSHOT_NO_OWNER UINT32_MAX

typedef struct {
    uint64_t address; /* of the object, after its prefix; of the piece of memory */
    uint64_t type;    /* of the object; 0 for memory that is none */
    uint64_t bytes;   /* from the address on */
    uint32_t owner;   /* index of the record that led here; SNAPSHOT_NO_OWNER: a root */
    uint16_t kind;    /* cpy_kind */
    uint16_t prefix;  /* bytes of the object before its address */
} snapshot_record;

static_assert(sizeof(snapshot_record) == 32, "records are read by their size");

/* Write all records to a file. Allocates nothing from malloc and writes to no object but
 * for reference counts that end as they were. Returns the number of records, or -1 with an
 * exception set (MemoryError, OSError) and a file that is not to be used.
 */
Py_ssize_t snapshot_write(int fd);

#endif
