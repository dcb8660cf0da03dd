/* The command line of the interpreter, split into its options and the program that they are for. */
#ifndef STUB_OPTIONS_H
#define STUB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { OPTIONS_MAX = 256 };

typedef struct {
    char *option[OPTIONS_MAX + 1]; /* one or two for each: "-O", or "-W" and "error" */
    size_t options;
    char kind;  /* 'c' a command, 'm' a module, 'f' a file, 's' standard input */
    char *text; /* the command, or the name; "-" or "" for standard input */
    int rest;   /* index of the first argument that is the program's own */
} command_line;

/* 0, or -1 with the reason in `why` if this command line is for the interpreter alone. */
int options_parse(int argc, char **argv, command_line *line, const char **why);

#endif
