/* Invariant: no byte of a file is used that another user could have written, but for root, and none
 * of its pages before header and manifest have been checked. */
#define _GNU_SOURCE
#include "image_file.h"

#include "machine.h"

#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define UNKNOWN_OWNER 65534u /* as which a user namespace shows all users that it does not know */

static_assert(offsetof(image_file_header, checksum) == offsetof(manifest, checksum), "one sum");

/* Whether this process sees all users by their own numbers. */
static bool
knows_all_users(void)
{
    char map[64] = {0};
    unsigned count = 0;
    int file = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    (void)!read(file, map, sizeof map - 1);
    (void)close(file);
    (void)sscanf(map, " 0 0 %u", &count);
    return count == UINT32_MAX;
}

static const char *
others_could_write(const struct stat *s)
{
    if (!S_ISREG(s->st_mode)) {
        return "the image is no plain file";
    }
    bool is_ours = s->st_uid == geteuid() || s->st_uid == 0;
    if (!is_ours || (s->st_uid == UNKNOWN_OWNER && !knows_all_users())) {
        return "the image belongs to another user";
    }
    return s->st_mode & 022 ? "another user may write to the image" : NULL;
}

static const char *
header_flaw(int file, image_file_header *found, uint64_t file_bytes)
{
    static union {
        image_file_header header;
        char data[MAX_OS_PAGE];
    } page;
    const image_file_header *h = &page.header;
    size_t bytes = OS_PAGE;
    if (pread(file, page.data, bytes, 0) != (ssize_t)bytes
        || memcmp(page.data, "PSIMAGE", 7) != 0) {
        return "the file is no image";
    }
    if (h->magic != IMAGE_FILE_MAGIC) {
        return "the image is of another version of pasture";
    }
    if (h->bytes != bytes) {
        return "the image was made under another page size";
    }
    if (manifest_checksum(page.data, bytes) != h->checksum) {
        return "the image's header is damaged";
    }
    if (h->file_bytes != file_bytes) {
        return "the image was truncated, or has grown";
    }
    if (h->manifest_at % OS_PAGE || h->manifest_at > file_bytes
        || h->manifest_bytes > file_bytes - h->manifest_at) {
        return "the image's header makes no sense";
    }
    *found = *h;
    return NULL;
}

const char *
image_file_may_not_run(const manifest *m, int file)
{
    const manifest_region *region = manifest_regions(m);
    const manifest_source *source = manifest_sources(m);
    struct statvfs system;
    if (fstatvfs(file, &system) == 0 && system.f_flag & ST_NOEXEC) {
        for (uint64_t i = 0; i < m->regions; i++) {
            if (region[i].protection & 4u && region[i].source != MANIFEST_ANONYMOUS
                && source[region[i].source].kind == MANIFEST_IMAGE) {
                return "the image lies on a file system that nothing is run from (noexec)";
            }
        }
    }
    return NULL;
}

const manifest *
image_file_manifest(int file, const char **why)
{
    struct stat s;
    image_file_header header;
    if (fstat(file, &s) < 0) {
        *why = "the image cannot be read";
        return NULL;
    }
    if ((*why = others_could_write(&s)) != NULL
        || (*why = header_flaw(file, &header, (uint64_t)s.st_size)) != NULL) {
        return NULL;
    }
    return manifest_map(file, header.manifest_at, header.manifest_bytes, why);
}
