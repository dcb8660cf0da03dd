/* The file holds 8 bytes for each OS page of the address space, in the order of addresses. */
#define _GNU_SOURCE
#include "pagemap.h"

#include <fcntl.h>
#include <unistd.h>

int
pagemap_open(void)
{
    return open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

bool
pagemap_read(int pagemap, uintptr_t start, size_t os_page_bytes, uint64_t *entries, size_t count)
{
    size_t bytes = count * sizeof *entries;
    off_t at = (off_t)(start / os_page_bytes * sizeof *entries);
    return pread(pagemap, entries, bytes, at) == (ssize_t)bytes;
}
