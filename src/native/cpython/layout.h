/* Do the layouts that this extension was compiled for match the interpreter it runs in?
 *
 * layout_table.c names each private field that is read or written. A field that cannot be
 * verified takes those parts of pasture away that depend on it, and no others. Everything that
 * touches a private field asks layout_has() or layout_require() first, once for a step.
 */
#ifndef PASTURE_LAYOUT_H
#define PASTURE_LAYOUT_H

#include "pycore.h"

#ifndef CPY_UNSUPPORTED

/* Parts of pasture that can be left out. */
typedef enum {
    LAYOUT_EVERYTHING,   /* nothing works without: the extension refuses */
    LAYOUT_COLLECTOR,    /* collections out of line */
    LAYOUT_ROOTS,        /* ... that start from what running calls hold */
    LAYOUT_IMMORTALITY,  /* the step immortalize */
    LAYOUT_CODE,         /* trace-code, gather-code, instructions of immortal code */
    LAYOUT_KEY_VERSIONS, /* versions of shared key tables, given ahead */
    LAYOUT_POOLS,        /* the step plug-pymalloc */
    LAYOUT_ARENAS,       /* free pools given back */
    LAYOUT_ATEXIT,       /* the function that runs after all others */
    LAYOUT_PARTS,
} layout_part;

/* What was found in the running interpreter, where builds of one version differ. Offsets in
   bytes; those of the headers until layout_check() has looked. */
extern struct cpy_found {
    size_t gc_state;    /* in PyInterpreterState */
    size_t generations; /* in struct _gc_runtime_state */
} cpy_found;

/* Find and verify, the first time that this is called. Returns 0, or -1 with RuntimeError set that
   names what differs, or with another exception, and then looks again at the next call. Changes
   nothing that a program can notice but some counters. */
int layout_check(void);

/* Whether a part may be used. False before layout_check(). */
bool layout_has(layout_part part);

/* The same: 0, or -1 with NotImplementedError set that says why not. */
int layout_require(layout_part part);

/* Whether layout_check() found something else where a row of the table has its field. */
bool layout_refuted(const char *field);

/* New list of (part, sentence) for what is left out, or NULL with an exception set. */
PyObject *layout_left_out(void);

/* New list of (field, how it is found, how it is verified, parts, offset), or NULL. */
PyObject *layout_describe(void);

#ifdef PASTURE_CHECK
/* For tests: take some fields for `bytes` further on than they are, and forget what was verified. */
int layout_shift(size_t row, Py_ssize_t bytes, size_t rows);
#endif

#endif /* CPY_UNSUPPORTED */
#endif
