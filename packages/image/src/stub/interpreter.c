/* Finds the interpreter beside this program: it runs whatever no image can.
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
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"python", "python3"};

/* A link of that name may lead to this program. */
static bool
is_another_program(const char *path)
{
    struct stat own, other;
    return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 && S_ISREG(other.st_mode)
           && (own.st_ino != other.st_ino || own.st_dev != other.st_dev);
}

const char *
interpreter_find(void)
{
    static char path[PATH_MAX + 16];
    const char *named = getenv("PASTURE_PYTHON");
    if (named != NULL && named[0] == '/') {
        return is_another_program(named) ? named : NULL;
    }
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length <= 0) {
        return NULL;
    }
    path[length] = 0;
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        strcpy(name, names[i]);
        if (is_another_program(path)) {
            return path;
        }
    }
    return NULL;
}
