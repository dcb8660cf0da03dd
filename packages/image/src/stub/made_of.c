/* A file is the same with the same size, inode and time of the kernel's (`st_ctim`, which none can
 * choose); else with the same content and mode. It has to be readable, or not, as it was.
 *
 * In a folder that has another inode or time counts what the load has looked for there: modules of
 * certain names (the mirror of pasture_image/build/search.py), paths at which there was nothing, and
 * all names where something has listed it. What was looked for in the working directory, where there
 * was nothing, is looked for in the program's, and above it where the load has looked there, too. */
#define _GNU_SOURCE
#include "made_of.h"

#include "beside.h"
#include "content.h"
#include "folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 07777u

static bool
is_readable(const struct stat *s, const char *path)
{
    return (s->st_mode & 0444) == 0444 || faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
}

static bool
has_content(const char *path, uint64_t sum)
{
    uint64_t found;
    return content_sum_of_path(path, &found) && found == sum;
}

static bool
is_dated(const manifest *m, const manifest_dated *dated)
{
    struct stat s;
    const char *path = manifest_at(m, dated->path);
    if (stat(path, &s) < 0 || (uint64_t)s.st_size != dated->bytes
        || is_readable(&s, path) != (dated->is_readable != 0)) {
        return false;
    }
    return content_is_untouched(&s, dated->inode, dated->changed_ns)
           || ((s.st_mode & MODE) == dated->mode
               && (!dated->is_readable || has_content(path, dated->sum)));
}

/* ---- folders in which modules are looked for ---- */

static bool
is_listed(const char *texts, const char *name, size_t length, const char *end)
{
    for (; *texts; texts += strlen(texts) + 1) {
        if (strncmp(texts, name, length) == 0 && strcmp(texts + length, end) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether one of the names is `*END`, and the entry ends so. */
static bool
has_end(const char *names, const char *entry, size_t length)
{
    for (; *names == '*'; names += strlen(names) + 1) { /* sorted: they are the first */
        size_t bytes = strlen(names + 1);
        if (length > bytes && strcmp(entry + length - bytes, names + 1) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether an entry counts; `end` is then what its name has behind it in the table. */
static bool
counts(int folder, const char *names, const char *entry, const char **end)
{
    size_t length = strlen(entry), module = strcspn(entry, ".");
    *end = "";
    if (has_end(names, entry, length)) {
        return true;
    }
    if (entry[module]) {
        return beside_is_module(entry + module) && is_listed(names, entry, module, "");
    }
    *end = "/";
    return (is_listed(names, entry, length, "/") && beside_is_package(folder, entry, true))
           || (is_listed(names, entry, length, "") && beside_is_package(folder, entry, false));
}

static bool
has_the_same(const manifest *m, const manifest_searched *searched, int folder)
{
    const char *names = manifest_at(m, searched->names), *found = manifest_at(m, searched->found);
    size_t left = 0;
    for (const char *at = found; *at; at += strlen(at) + 1) {
        left++;
    }
    char *entries = folder_names(folder, ".");
    bool same = entries != NULL;
    for (const char *at = entries; same && *at; at += strlen(at) + 1) {
        const char *end;
        if (counts(folder, names, at, &end)) {
            same = left-- > 0 && is_listed(found, at, strlen(at), end);
        }
    }
    free(entries);
    return same && left == 0;
}

/* Whether something of that name is in the working directory, or in a folder above it. */
static bool
is_above(const char *name)
{
    char path[2 * PATH_MAX];
    struct stat s;
    if (getcwd(path, PATH_MAX) == NULL) {
        return true;
    }
    for (char *end = path + strlen(path); end != NULL; end = strrchr(path, '/')) {
        *end = 0;
        snprintf(end, sizeof path - (size_t)(end - path), "/%s", name);
        if (stat(path, &s) == 0) {
            return true;
        }
        *end = 0;
    }
    return false;
}

/* Whether there is something where nothing was. A name that begins with `^/` is looked for upward. */
static bool
is_there(const char *path)
{
    struct stat s;
    return strncmp(path, "^/", 2) == 0 ? is_above(path + 2) : stat(path, &s) == 0;
}

/* NULL, or what in a folder is not as it was. */
static const char *
folder_differs(const manifest *m, const manifest_searched *searched)
{
    const char *path = manifest_at(m, searched->path), *names = manifest_at(m, searched->names);
    struct stat s;
    uint64_t sum;
    if (stat(path, &s) < 0) { /* then there is nothing below it, either */
        return *names || searched->is_listed || !*(const char *)manifest_at(m, searched->missing)
                   ? path
                   : NULL;
    }
    if (content_is_untouched(&s, searched->inode, searched->changed_ns)) {
        return NULL;
    }
    for (const char *at = manifest_at(m, searched->missing); *at; at += strlen(at) + 1) {
        if (is_there(at)) {
            return at;
        }
    }
    if (searched->is_listed && (!content_sum_of_names(path, &sum) || sum != searched->sum)) {
        return path;
    }
    if (!*names) {
        return NULL;
    }
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool same = has_the_same(m, searched, folder);
    (void)close(folder);
    return same ? NULL : path;
}

const char *
made_of_differs(const manifest *m)
{
    const manifest_dated *dated = manifest_at(m, m->dated_at);
    const manifest_searched *searched = manifest_at(m, m->searched_at);
    const char *why = NULL;
    for (uint64_t i = 0; i < m->dated && why == NULL; i++) {
        why = is_dated(m, &dated[i]) ? NULL : manifest_at(m, dated[i].path);
    }
    for (uint64_t i = 0; i < m->searched && why == NULL; i++) {
        why = folder_differs(m, &searched[i]);
    }
    return why;
}
