/* Finds the interpreter next to this program: it runs whatever no image can.
 *
 * Invariant: it never finds this program itself, under any link: it would start itself for ever.
 */

#define _GNU_SOURCE
#include "interpreter.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"python", "python3"};

size_t
interpreter_own_path(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length > 0) {
        path[length < PATH_MAX ? length : 0] = 0;
        return strlen(path);
    }
    /* Without /proc: as the kernel was given it. */
    const char *given = (const char *)getauxval(AT_EXECFN);
    return given != NULL && realpath(given, path) != NULL ? strlen(path) : 0;
}

/* A link of that name may lead to this program. */
static bool
is_another_program(const char *path)
{
    char own_path[PATH_MAX + 1];
    struct stat own, other;
    return interpreter_own_path(own_path) && stat(own_path, &own) == 0 && stat(path, &other) == 0
           && S_ISREG(other.st_mode) && (own.st_ino != other.st_ino || own.st_dev != other.st_dev);
}

const char *
interpreter_find(void)
{
    static char path[PATH_MAX + 16];
    const char *named = getenv("PASTURE_PYTHON");
    if (named != NULL && named[0] == '/') {
        return is_another_program(named) ? named : NULL;
    }
    if (!interpreter_own_path(path)) {
        return NULL;
    }
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        strcpy(name, names[i]);
        if (is_another_program(path)) {
            return path;
        }
    }
    return NULL;
}
