/* Source: CPython 3.14 Python/pathconfig.c, _PyPathConfig_ComputeSysPath0; Lib/importlib/
 * _bootstrap_external.py, FileFinder; Lib/zipimport.py, _read_directory. */
#define _GNU_SOURCE
#include "beside.h"

#include "folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARCHIVE_END_BYTES (22 + 65535) /* its last record, with the longest comment */

/* NULL if there is none. */
static const char *
folder_of(const command_line *line)
{
    static char path[PATH_MAX];
    if (line->kind != 'f') {
        return ".";
    }
    if (realpath(line->text, path) == NULL) {
        return NULL;
    }
    char *slash = strrchr(path, '/');
    slash[slash == path] = 0;
    return path;
}

/* Its number in the image's table; `folders` if the image has nothing from there. */
static uint64_t
number_of(const manifest *m, int folder)
{
    const manifest_folder *known = manifest_at(m, m->folders_at);
    struct stat own, s;
    uint64_t i = 0;
    if (fstat(folder, &own) < 0) {
        return m->folders;
    }
    while (i < m->folders
           && (stat(manifest_at(m, known[i].path), &s) < 0 || s.st_dev != own.st_dev
               || s.st_ino != own.st_ino)) {
        i++;
    }
    return i;
}

static int
compare(const char *name, size_t length, const char *other)
{
    int order = strncmp(name, other, length);
    return order != 0 ? order : -(other[length] != 0);
}

static const manifest_name *
find_name(const manifest *m, const char *name, size_t length)
{
    const manifest_name *names = manifest_at(m, m->names_at);
    uint64_t low = 0, high = m->names;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        int order = compare(name, length, manifest_at(m, names[middle].text));
        if (order == 0) {
            return &names[middle];
        }
        if (order < 0) {
            high = middle;
        }
        else {
            low = middle + 1;
        }
    }
    return NULL;
}

bool
beside_is_module(const char *suffix)
{
    size_t length = strlen(suffix);
    return strcmp(suffix, ".py") == 0 || strcmp(suffix, ".pyc") == 0
           || (length >= 3 && strcmp(suffix + length - 3, ".so") == 0);
}

bool
beside_is_package(int folder, const char *name, bool is_open)
{
    static const char init[] = "__init__";
    struct stat s;
    if (fstatat(folder, name, &s, 0) < 0 || !S_ISDIR(s.st_mode)) {
        return false;
    }
    char *entries = is_open ? NULL : folder_names(folder, name);
    if (entries == NULL) {
        return true; /* where it cannot be listed, the interpreter may find a file in it all the same */
    }
    bool found = false;
    for (const char *entry = entries; *entry && !found; entry += strlen(entry) + 1) {
        found =
            strncmp(entry, init, sizeof init - 1) == 0 && beside_is_module(entry + sizeof init - 1);
    }
    free(entries);
    return found;
}

static bool
takes_the_place(const manifest *m, int folder, uint64_t number, const char *entry)
{
    size_t length = strcspn(entry, ".");
    bool is_file = beside_is_module(entry + length);
    if (length == 0 || (entry[length] && !is_file)) {
        return false;
    }
    const manifest_name *name = find_name(m, entry, length);
    if (name == NULL || (number < m->folders && name->folder == number)) {
        return false;
    }
    return is_file || beside_is_package(folder, entry, name->is_open);
}

const char *
beside_found(const manifest *m, const command_line *line)
{
    static char found[NAME_MAX + 1];
    const char *path = m->names ? folder_of(line) : NULL;
    if (path == NULL) {
        return NULL;
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) { /* importlib, too, finds nothing where it may not look */
        return access(path, R_OK) < 0 ? NULL : path;
    }
    char *entries = folder_names(folder, ".");
    if (entries == NULL) {
        return path;
    }
    uint64_t number = number_of(m, folder);
    const char *why = NULL;
    for (const char *entry = entries; *entry && why == NULL; entry += strlen(entry) + 1) {
        if (takes_the_place(m, folder, number, entry)) {
            why = strcpy(found, entry);
        }
    }
    (void)close(folder);
    free(entries);
    return why;
}

const char *
beside_no_script(const char *program)
{
    static char end[ARCHIVE_END_BYTES];
    struct stat s;
    if (stat(program, &s) < 0 || !S_ISREG(s.st_mode)) {
        return "the program is no plain file";
    }
    int file = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    off_t begin = s.st_size > ARCHIVE_END_BYTES ? s.st_size - ARCHIVE_END_BYTES : 0;
    ssize_t length = pread(file, end, sizeof end, begin);
    (void)close(file);
    if (length < 0) {
        return "the program cannot be read";
    }
    return memmem(end, (size_t)length, "PK\5\6", 4) != NULL ? "the program is an archive" : NULL;
}
