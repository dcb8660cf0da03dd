/* The folder that a program brings to the search path, and what it would find there first. */
#ifndef STUB_BESIDE_H
#define STUB_BESIDE_H

#include "manifest.h"
#include "options.h"

/* NULL, or the name of a module in that folder in whose place the image has another one. */
const char *beside_found(const manifest *m, const command_line *line);

/* Whether a program is an archive, which comes to the search path itself. */
int beside_is_archive(const char *program);

#endif
