/* The page size of the running kernel: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.
 *
 * The only place in C that asks for it, or assumes anything of it. Where a kernel has smaller pages
 * than the least, callers that read /proc/self/pagemap do without it.
 */
#ifndef PASTURE_OS_PAGE_H
#define PASTURE_OS_PAGE_H

#include <stddef.h>
#include <unistd.h>

/* The unit for the size of arrays with an entry for each OS page. */
#define MIN_OS_PAGE_BYTES ((size_t)4096)

/* A power of two. */
static inline size_t
os_page_get_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

#endif
