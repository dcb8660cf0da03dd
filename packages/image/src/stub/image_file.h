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

/* The manifest of an image in an open file; NULL, and a reason in `why`, if it cannot be used. */
const manifest *image_file_manifest(int file, const char **why);

/* NULL, or why code of an image in an open file cannot be run. */
const char *image_file_may_not_run(const manifest *m, int file);

#endif
