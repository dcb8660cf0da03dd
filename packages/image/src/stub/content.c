/* A file is read whole where the kernel cannot say that nothing in it has changed. */
#define _GNU_SOURCE
#include "content.h"

#include "folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool
content_sum(int file, uint64_t *sum)
{
    _Alignas(uint64_t) static char text[1 << 16];
    struct stat s;
    if (fstat(file, &s) < 0 || !S_ISREG(s.st_mode)) {
        return false;
    }
    void *data = MAP_FAILED;
    if (s.st_size) {
        data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (data != MAP_FAILED) {
        *sum = manifest_sum(data, (uint64_t)s.st_size);
        (void)munmap(data, (size_t)s.st_size);
        return true;
    }
    ssize_t length = 0; /* of a file of the kernel's, which has no size, or cannot be mapped */
    size_t done = 0;
    while (done < sizeof text && (length = read(file, text + done, sizeof text - done)) > 0) {
        done += (size_t)length;
    }
    *sum = manifest_sum(text, done);
    return length == 0 && done < sizeof text;
}

bool
content_sum_of_path(const char *path, uint64_t *sum)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_known = file >= 0 && content_sum(file, sum);
    (void)close(file);
    return is_known;
}

bool
content_sum_of_names(const char *folder, uint64_t *sum)
{
    char *names = folder_names(AT_FDCWD, folder);
    *sum = 0;
    if (names == NULL) {
        return false;
    }
    int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *name = names; *name; name += strlen(name) + 1) {
        struct stat s;
        if (strcmp(name, "__pycache__") != 0) {
            bool is_there = fstatat(at, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
            *sum += manifest_sum(name, strlen(name)) + (is_there ? s.st_mode & S_IFMT : 0);
        }
    }
    (void)close(at);
    free(names);
    return true;
}

bool
content_is_untouched(const struct stat *s, uint64_t inode, uint64_t changed_ns)
{
    uint64_t now = (uint64_t)s->st_ctim.tv_sec * 1000000000 + (uint64_t)s->st_ctim.tv_nsec;
    return changed_ns && inode == s->st_ino && changed_ns == now;
}

bool
content_is(const manifest_source *source, int file)
{
    struct stat s;
    uint64_t sum;
    if (fstat(file, &s) < 0 || !S_ISREG(s.st_mode) || (uint64_t)s.st_size != source->bytes) {
        return false;
    }
    return content_is_untouched(&s, source->inode, source->changed_ns)
           || (content_sum(file, &sum) && sum == source->sum);
}
