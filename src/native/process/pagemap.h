/* What /proc/PID/pagemap tells of an OS page, in one entry each (proc_pid_pagemap(5)). */
#ifndef PASTURE_PAGEMAP_H
#define PASTURE_PAGEMAP_H

#include <stdbool.h>
#include <stdint.h>

#define LEAST_OS_PAGE_BYTES 4096u
#define PAGEMAP_ENTRY_BYTES 8u

/* Whether the page is in memory and mapped by no other process. */
static inline bool
pagemap_is_own(uint64_t entry)
{
    const uint64_t present = (uint64_t)1 << 63, exclusive = (uint64_t)1 << 56;
    return (entry & (present | exclusive)) == (present | exclusive);
}

#endif
