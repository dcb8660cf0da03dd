/* Where the fields of common objects are, for a reader in another process.
 *
 * `pasture explain` names the field that was written to by its offset in the object.
 */
#ifndef PASTURE_CPYTHON_FIELDS_H
#define PASTURE_CPYTHON_FIELDS_H

#include "pycore.h"

/* Where a field is, for a reader in another process; or a size, or a bit of a field. */
typedef struct {
    const char *holder; /* type, or structure that is none */
    const char *name;
    Py_ssize_t offset;
    const char *verified_as;  /* its row in layout_table.c, if it has one */
    Py_ssize_t (*find)(void); /* in the place of `offset`; NULL */
} cpy_field;

/* All that are known, in no particular order. */
extern const cpy_field cpy_fields[];
extern const size_t cpy_field_count;

Py_ssize_t cpy_field_value(const cpy_field *field);

/* False if layout_check() has found something else in its place. */
bool cpy_field_is_right(const cpy_field *field);

#endif
