/* The folder that a program brings to the search path, and what it would find there first. */
#ifndef STUB_BESIDE_H
#define STUB_BESIDE_H

#include "manifest.h"
#include "options.h"

#include <stdbool.h>

/* NULL, or the name of a module in that folder in whose place the image has another one. */
const char *beside_found(const manifest *m, const command_line *line);

/* NULL, or why a program is no script. Directories, archives, files that cannot be read, and pipes are for
   the interpreter: what it says of them, it says before any program runs. */
const char *beside_no_script(const char *program);

/* Whether a file with that behind its name is a module: also a library for another version. */
bool beside_is_module(const char *suffix);

/* Whether an entry of an open folder is a package; `is_open`: any folder is one. */
bool beside_is_package(int folder, const char *name, bool is_open);

#endif
