/* A build-id is a hash of the content that the linker has put into the file (gcc and clang: SHA-1).
 * Comparing it reads twenty bytes; a file without one is read whole. */
#define _GNU_SOURCE
#include "content.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ID_BYTES 64

static bool
has_build_id(const manifest *m, const manifest_source *source, int file)
{
    char found[MAX_ID_BYTES];
    return pread(file, found, source->id_bytes, (off_t)source->id_offset)
               == (ssize_t)source->id_bytes
           && memcmp(found, manifest_at(m, source->id_at), source->id_bytes) == 0;
}

bool
content_sum(int file, uint64_t *sum)
{
    struct stat s;
    if (fstat(file, &s) < 0 || !S_ISREG(s.st_mode) || s.st_size <= 0) {
        return false;
    }
    void *data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
        return false;
    }
    *sum = manifest_sum(data, (uint64_t)s.st_size);
    return munmap(data, (size_t)s.st_size) == 0;
}

bool
content_is(const manifest *m, const manifest_source *source, int file)
{
    struct stat s;
    uint64_t sum;
    if (fstat(file, &s) < 0 || !S_ISREG(s.st_mode) || (uint64_t)s.st_size != source->bytes) {
        return false;
    }
    if (source->kind == MANIFEST_BUILD_ID) {
        return has_build_id(m, source, file);
    }
    return content_sum(file, &sum) && sum == source->sum;
}
