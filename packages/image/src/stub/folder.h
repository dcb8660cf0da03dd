/* PASTURE_IMAGE=FOLDER/: the images of a folder, as `pasture image build -o FOLDER/` keeps one for each kernel
 * and kind of processor of a volume. */
#ifndef STUB_FOLDER_H
#define STUB_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define FOLDER_MAX_IMAGES 64

typedef struct {
    char path[PATH_MAX];
    long long mtime_ns;
} folder_image;

/* The names in a folder but for itself and the one above it, one behind the other up to an empty one, in
   memory of the caller's. NULL, and errno, if it cannot be opened, or EIO if not all of it was read. `at`
   as in openat(2). */
char *folder_names(int at, const char *path);

/* Whether a path is that of a folder. */
bool folder_is(const char *path);

/* Finds the images of a folder, the last that was written first; returns how many. */
size_t folder_find(const char *folder, folder_image images[FOLDER_MAX_IMAGES]);

#endif
