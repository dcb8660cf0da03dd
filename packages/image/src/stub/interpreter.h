/* The interpreter for which this program starts: the one next to it. */
#ifndef STUB_INTERPRETER_H
#define STUB_INTERPRETER_H

#include <stddef.h>

/* Its path, or NULL if there is none. */
const char *interpreter_find(void);

/* The path of this program without links, in up to PATH_MAX + 1 bytes; returns its length, 0 if it is
   not known. */
size_t interpreter_own_path(char *path);

#endif
