/* Whether a library is the one that an image was made with, wherever it lies. */
#ifndef STUB_CONTENT_H
#define STUB_CONTENT_H

#include "manifest.h"

#include <stdbool.h>

/* Whether an open file has the content that an image knows it by. */
bool content_is(const manifest *m, const manifest_source *source, int file);

/* The checksum of all of a file. False if it cannot be read. */
bool content_sum(int file, uint64_t *sum);

#endif
