/* The variables that an image is made with, while modules are loaded: a process gets them one by
 * one, as it asks for them. */
#ifndef PASTURE_IMAGE_VARIABLES_H
#define PASTURE_IMAGE_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/* Map `NAME=VALUE\0NAME=VALUE\0` from a file, and have getenv() find what is there. 0, or
   errno. One file at a time. */
int variables_open(int file);

/* Nothing of the file is in memory afterwards, and getenv() is the C library's own. 0, or errno:
   then getenv() is not, and answers from the environment alone. */
int variables_close(void);

/* The value behind a name, or NULL. It is valid until the file is closed. */
const char *variables_find(const char *name, size_t length);

/* The file has no such variable any more: it was read, set or deleted. */
void variables_hide(const char *name, size_t length);

/* The `NAME=VALUE` behind another one, without those that are hidden; behind NULL the first. NULL
   behind the last. */
const char *variables_next(const char *before);

/* Names that getenv() was asked for, `NAME\0NAME\0`, and how many bytes they take. Whether these are
   all. After the file is closed. */
bool variables_asked(const char **names, size_t *bytes);

/* Whether the system refuses to have getenv() watched. Without glibc it is not, and that is none. */
bool variables_are_missed(void);

#endif
