/* Names with a dot before them are files that are being written: they are no images yet. */
#define _GNU_SOURCE
#include "folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define END ".img"

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
    return a < b ? 1 : a > b ? -1 : 0;
}

static bool
is_image(const char *name)
{
    size_t length = strlen(name);
    return name[0] != '.' && length > strlen(END) && strcmp(name + length - strlen(END), END) == 0;
}

size_t
folder_find(const char *folder, folder_image images[FOLDER_MAX_IMAGES])
{
    size_t found = 0;
    DIR *stream = opendir(folder);
    struct dirent *entry;
    while (stream != NULL && found < FOLDER_MAX_IMAGES && (entry = readdir(stream)) != NULL) {
        struct stat s;
        folder_image *image = &images[found];
        int length = snprintf(image->path, sizeof image->path, "%s/%s", folder, entry->d_name);
        if (is_image(entry->d_name) && length < (int)sizeof image->path
            && stat(image->path, &s) == 0 && S_ISREG(s.st_mode)) {
            image->mtime_ns = s.st_mtim.tv_sec * 1000000000LL + s.st_mtim.tv_nsec;
            found++;
        }
    }
    if (stream != NULL) {
        (void)closedir(stream);
    }
    qsort(images, found, sizeof *images, newest_first);
    return found;
}
