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

static char own_path[PATH_MAX + 1];

static bool
find_own_path(void)
{
    ssize_t length = readlink("/proc/self/exe", own_path, PATH_MAX);
    if (length > 0) {
        own_path[length] = 0;
        return true;
    }
    /* Without /proc: as the kernel was given it. */
    const char *given = (const char *)getauxval(AT_EXECFN);
    return realpath(given, own_path) != NULL;
}

const char *
interpreter_own_path(void)
{
    return own_path;
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
    if (!find_own_path() || stat(own_path, &own) < 0) {
        return NULL;
    }
    if (named != NULL && named[0] == '/') {
        return is_another_program(named, &own) ? named : NULL;
    }
    char *name = strrchr(strcpy(path, own_path), '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        strcpy(name, names[i]);
        if (is_another_program(path, &own)) {
            return path;
        }
    }
    return NULL;
}
