/* Whether a library is the one that an image was made with, wherever it lies. */
#ifndef STUB_CONTENT_H
#define STUB_CONTENT_H

#include "manifest.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Whether an open file has the content that an image knows it by. */
bool content_is(const manifest_source *source, int file);

/* Whether nothing in a file or folder has changed: the kernel sets that time, and lets none choose it. */
bool content_is_untouched(const struct stat *s, uint64_t inode, uint64_t changed_ns);

/* The checksum of all of a file. False if it cannot be read, or is the kernel's and has 64 KiB. */
bool content_sum(int file, uint64_t *sum);
bool content_sum_of_path(const char *path, uint64_t *sum);

/* A checksum of the names in a folder and of what each is, in whatever order; the interpreter's cache does not count. */
bool content_sum_of_names(const char *folder, uint64_t *sum);

#endif
