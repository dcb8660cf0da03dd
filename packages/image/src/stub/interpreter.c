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
        path[length] = 0;
        return (size_t)length;
    }
    /* Without /proc: as the kernel was given it. */
    const char *given = (const char *)getauxval(AT_EXECFN);
    return realpath(given, path) != NULL ? strlen(path) : 0;
}

/* A link of that name may lead to this program. */
static bool
is_another_program(const char *path, const struct stat *own)
{
    struct stat other;
    return stat(path, &other) == 0 && S_ISREG(other.st_mode)
           && (own->st_ino != other.st_ino || own->st_dev != other.st_dev);
}

const char *
interpreter_find(void)
{
    static char path[PATH_MAX + 16];
    const char *named = getenv("PASTURE_PYTHON");
    struct stat own;
    if (!interpreter_own_path(path) || stat(path, &own) < 0) {
        return NULL;
    }
    if (named != NULL && named[0] == '/') {
        return is_another_program(named, &own) ? named : NULL;
    }
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        strcpy(name, names[i]);
        if (is_another_program(path, &own)) {
            return path;
        }
    }
    return NULL;
}
