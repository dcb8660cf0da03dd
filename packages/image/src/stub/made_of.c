/* A file is the same with the same size and time of change, as a .pyc takes its source. Layers of
 * containers keep whole seconds, so a time without a fraction is compared by its seconds.
 *
 * A folder that has changed is looked through: what counts in it are modules of names that the image
 * has looked for. The mirror of pasture_image/build/search.py. */
#define _GNU_SOURCE
#include "made_of.h"

#include "beside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS UINT64_C(1000000000)

static bool
is_time(const struct stat *s, uint64_t wanted_ns)
{
    uint64_t fraction = (uint64_t)s->st_mtim.tv_nsec;
    return (uint64_t)s->st_mtim.tv_sec == wanted_ns / SECOND_NS
           && (fraction == 0 || fraction == wanted_ns % SECOND_NS);
}

static bool
is_dated(const manifest *m, const manifest_dated *dated)
{
    struct stat s;
    if (stat(manifest_at(m, dated->path), &s) < 0) {
        return dated->bytes == MANIFEST_MISSING && (errno == ENOENT || errno == ENOTDIR);
    }
    return (uint64_t)s.st_size == dated->bytes && is_time(&s, dated->mtime_ns);
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

/* Whether an entry counts; `end` is then what its name has behind it in the table. */
static bool
counts(int folder, const char *names, const char *entry, const char **end)
{
    size_t length = strlen(entry), module = strcspn(entry, ".");
    *end = "";
    if (length > 4 && strcmp(entry + length - 4, ".pth") == 0 && is_listed(names, "*.pth", 5, "")) {
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
    DIR *entries = fdopendir(folder);
    struct dirent *entry;
    bool same = entries != NULL;
    while (same && (entry = readdir(entries)) != NULL) {
        const char *end;
        if (counts(folder, names, entry->d_name, &end)) {
            same = left-- > 0 && is_listed(found, entry->d_name, strlen(entry->d_name), end);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return same && left == 0;
}

static bool
is_searched(const manifest *m, const manifest_searched *searched)
{
    const char *path = manifest_at(m, searched->path);
    struct stat s;
    if (stat(path, &s) < 0) {
        return searched->mtime_ns == 0;
    }
    if (searched->mtime_ns && is_time(&s, searched->mtime_ns)) {
        return true;
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder >= 0 && has_the_same(m, searched, folder);
}

const char *
made_of_differs(const manifest *m)
{
    const manifest_dated *dated = manifest_at(m, m->dated_at);
    for (uint64_t i = 0; i < m->dated; i++) {
        if (!is_dated(m, &dated[i])) {
            return manifest_at(m, dated[i].path);
        }
    }
    const manifest_searched *searched = manifest_at(m, m->searched_at);
    for (uint64_t i = 0; i < m->searched; i++) {
        if (!is_searched(m, &searched[i])) {
            return manifest_at(m, searched[i].path);
        }
    }
    return NULL;
}
