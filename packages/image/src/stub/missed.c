/* A row a reason, each of the same length, so that a count is raised in its place. The file belongs to
 * the first user whose program was not served; others count nothing. It is not written next to an
 * image that is not trusted: its folder may lead anywhere.
 */
#define _GNU_SOURCE
#include "missed.h"

#include "folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define END ".missed" /* of a folder of images: a file of that name in it */
#define ROW_BYTES 512
#define MAX_ROWS 32
#define HEAD "%010lu %012lld " /* how often, and when last, in seconds since 1970 */
#define HEAD_BYTES 24

static bool
is_trusted(const char *image)
{
    struct stat s;
    return stat(image, &s) == 0 && (S_ISREG(s.st_mode) || S_ISDIR(s.st_mode))
           && (s.st_uid == geteuid() || s.st_uid == 0) && !(s.st_mode & 022);
}

static int
open_counts(const char *image, off_t *bytes)
{
    char path[PATH_MAX + 1 + sizeof END];
    struct stat s;
    snprintf(path, sizeof path, "%.*s%s%s", PATH_MAX, image, folder_is(image) ? "/" : "", END);
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int file = open(path, flags, 0600);
    if (file < 0) {
        return -1;
    }
    /* Another name of the file could be in a folder of another user. */
    if (fstat(file, &s) < 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid() || s.st_nlink != 1
        || flock(file, LOCK_EX | LOCK_NB) < 0 || fstat(file, &s) < 0) {
        (void)close(file);
        return -1;
    }
    *bytes = s.st_size;
    return file;
}

static void
put_row(char *row, const char *why)
{
    memset(row, ' ', ROW_BYTES);
    row[ROW_BYTES - 1] = '\n';
    for (size_t i = 0; why[i] && i < ROW_BYTES - HEAD_BYTES - 1; i++) {
        unsigned char c = (unsigned char)why[i];
        row[HEAD_BYTES + i] = (char)(c < ' ' || c == 0x7f ? '?' : c);
    }
}

static void
write_row(int file, char *row, unsigned long count, off_t at)
{
    char head[64];
    snprintf(head, sizeof head, HEAD, count % 10000000000UL, (long long)time(NULL));
    memcpy(row, head, HEAD_BYTES);
    (void)!pwrite(file, row, ROW_BYTES, at);
}

bool
missed_note(const char *image, const char *why)
{
    off_t bytes, at = 0;
    int file = is_trusted(image) ? open_counts(image, &bytes) : -1;
    if (file < 0) {
        return true;
    }
    char row[ROW_BYTES], old[ROW_BYTES];
    bool is_new = true;
    put_row(row, why);
    for (; is_new && at + ROW_BYTES <= bytes; at += ROW_BYTES) {
        if (pread(file, old, sizeof old, at) != ROW_BYTES) {
            break;
        }
        is_new = memcmp(old + HEAD_BYTES, row + HEAD_BYTES, ROW_BYTES - HEAD_BYTES) != 0;
        if (!is_new) {
            old[HEAD_BYTES - 1] = 0;
            write_row(file, row, strtoul(old, NULL, 10) + 1, at);
        }
    }
    if (is_new && at < MAX_ROWS * ROW_BYTES) {
        write_row(file, row, 1, at);
    }
    (void)close(file);
    return is_new;
}
