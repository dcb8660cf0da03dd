#define _GNU_SOURCE
#include "mappings.h"

#include "os_page.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int
mappings_write(const char *from, size_t bytes, int file, off_t at)
{
    size_t os_page_bytes = os_page_get_bytes();
    for (size_t done = 0; done < bytes; done += os_page_bytes) {
        const char *os_page = from + done;
        if (os_page[0] == 0 && memcmp(os_page, os_page + 1, os_page_bytes - 1) == 0) {
            continue;
        }
        ssize_t written = pwrite(file, os_page, os_page_bytes, at + (off_t)done);
        if (written != (ssize_t)os_page_bytes) {
            return written < 0 ? errno : ENOSPC;
        }
    }
    return 0;
}

int
mappings_replace(char *place, size_t bytes, int protection, int file, off_t at)
{
    void *there = mmap(place, bytes, protection, MAP_SHARED | MAP_FIXED, file, at);
    return there == MAP_FAILED ? errno : 0;
}
