/* The names that a program imports, as far as its text shows them at once. */
#ifndef STUB_IMPORTS_H
#define STUB_IMPORTS_H

#include "options.h"

#include <stddef.h>

/* Names of top-level modules, separated by commas, each once. Never fails: "" if there is none. */
void imports_find(const command_line *line, char *names, size_t size);

#endif
