/* A build-id is a hash of the content that the linker has put into the file (gcc and clang: SHA-1).
 * Comparing it reads twenty bytes; a file without one is read whole where the kernel cannot say
 * that nothing in it has changed. */
#define _GNU_SOURCE
#include "content.h"

#include <dirent.h>
#include <fcntl.h>
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
content_sum_of_answer(const char *path, uint64_t *sum)
{
    _Alignas(uint64_t) char text[4096];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t length = file >= 0 ? read(file, text, sizeof text) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    *sum = length >= 0 ? manifest_sum(text, (uint64_t)length) : 0;
    return length >= 0;
}

bool
content_sum_of_names(const char *folder, uint64_t *sum)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    *sum = 0;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        _Alignas(uint64_t) char name[sizeof entry->d_name];
        size_t length = strlen(entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0
            && strcmp(entry->d_name, "__pycache__") != 0) {
            memcpy(name, entry->d_name, length + 1);
            *sum += manifest_sum(name, length);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return entries != NULL;
}

/* The kernel sets that time at each change of a file, and lets none choose it. */
static bool
is_untouched(const manifest_source *source, const struct stat *s)
{
    uint64_t changed_ns = (uint64_t)s->st_ctim.tv_sec * 1000000000 + (uint64_t)s->st_ctim.tv_nsec;
    return source->changed_ns && source->inode == s->st_ino && source->changed_ns == changed_ns;
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
    return is_untouched(source, &s) || (content_sum(file, &sum) && sum == source->sum);
}
