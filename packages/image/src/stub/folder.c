/* Names with a dot before them are files that are being written: they are no images yet. */
#define _GNU_SOURCE
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *
read_names(DIR *stream)
{
    char *names = NULL;
    size_t bytes;
    FILE *list = open_memstream(&names, &bytes);
    struct dirent *entry;
    if (list == NULL) {
        return NULL;
    }
    while (errno = 0, (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)fwrite(entry->d_name, strlen(entry->d_name) + 1, 1, list);
        }
    }
    bool is_whole = errno == 0;
    if (fclose(list) == 0 && is_whole) {
        return names;
    }
    free(names);
    return NULL;
}

char *
folder_names(int at, const char *path)
{
    int folder = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return NULL;
    }
    DIR *stream = fdopendir(folder);
    char *names = stream != NULL ? read_names(stream) : NULL;
    (void)(stream != NULL ? closedir(stream) : close(folder));
    if (names == NULL) {
        errno = EIO;
    }
    return names;
}

bool
folder_is(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static int
newest_first(const void *one, const void *other)
{
    long long a = ((const folder_image *)one)->mtime_ns;
    long long b = ((const folder_image *)other)->mtime_ns;
    return (a < b) - (a > b);
}

static bool
is_image(const char *name)
{
    const char *end = strrchr(name, '.');
    return name[0] != '.' && end != NULL && strcmp(end, ".img") == 0;
}

size_t
folder_find(const char *folder, folder_image images[FOLDER_MAX_IMAGES])
{
    size_t found = 0;
    char *names = folder_names(AT_FDCWD, folder);
    for (char *name = names; name != NULL && *name; name += strlen(name) + 1) {
        struct stat s;
        folder_image *image = &images[found];
        int length = snprintf(image->path, sizeof image->path, "%s/%s", folder, name);
        if (is_image(name) && length < (int)sizeof image->path && stat(image->path, &s) == 0
            && S_ISREG(s.st_mode)) {
            image->mtime_ns = s.st_mtim.tv_sec * 1000000000LL + s.st_mtim.tv_nsec;
            found++;
        }
        if (found == FOLDER_MAX_IMAGES) { /* the oldest goes */
            qsort(images, found--, sizeof *images, newest_first);
        }
    }
    free(names);
    qsort(images, found, sizeof *images, newest_first);
    return found;
}
