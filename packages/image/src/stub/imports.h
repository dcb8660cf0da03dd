/* The names that a command imports, as far as its text shows them at once. */
#ifndef STUB_IMPORTS_H
#define STUB_IMPORTS_H

#include <stddef.h>

/* Names of modules, separated by commas, each once. Never fails: "" if there is none. */
void imports_find(const char *text, char *names, size_t size);

#endif
