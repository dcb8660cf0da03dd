/* Where the fields of common objects stand, for a reader in another process.
 *
 * `pasture explain` names the field that was written to by its offset in the object.
 */
#ifndef PASTURE_CPYTHON_FIELDS_H
#define PASTURE_CPYTHON_FIELDS_H

#include "pycore.h"

/* Where a field stands, for a reader in another process. */
typedef struct {
    const char *holder; /* type, or structure that is none */
    const char *name;
    Py_ssize_t offset;
} cpy_field;

/* All that are told, in no particular order. */
extern const cpy_field cpy_fields[];
extern const size_t cpy_field_count;

#endif
