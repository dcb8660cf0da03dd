/* An image in a file: a header of one page, the image's pages, its manifest, a document for people.
 * pasture_image/build/image_file.py writes it. */
#ifndef STUB_IMAGE_FILE_H
#define STUB_IMAGE_FILE_H

#include "manifest.h"

#define IMAGE_FILE_MAGIC UINT64_C(0x314547414D495350)

/* The rest of the page, of the system's size, is zero. */
typedef struct {
    uint64_t magic;
    uint64_t bytes;    /* of the header: the size of a page */
    uint64_t checksum; /* of the header: manifest_checksum */
    uint64_t file_bytes;
    uint64_t manifest_at, manifest_bytes;
    uint64_t document_at, document_bytes;
    uint8_t sha256[32]; /* of all behind the header; `image show --check` compares it */
} image_file_header;

/* The manifest of an image in a file, which is open as `file` then; NULL, and a reason in `why`, if it
   cannot be used. */
const manifest *image_file_open(const char *path, int *file, const char **why);

/* NULL if an image that is open fits this machine and the files that it was made of. Otherwise why
   not. */
const char *image_file_differs(const manifest *m, int file);

#endif
