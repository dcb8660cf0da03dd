/* /proc/self/pagemap: what the kernel says of an OS page, in one entry each
 * (proc_pid_pagemap(5)).
 *
 * pasture asks it two things: whether a page is this process's own, so that writing to it un-shares
 * nothing, and whether it holds anything at all.
 */
#ifndef PASTURE_PAGEMAP_H
#define PASTURE_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file descriptor for this process's own, or -1. The caller closes it. */
int pagemap_open(void);

/* Read the entries of `count` OS pages from the one at `start` on. Returns whether all came. */
bool pagemap_read(int pagemap, uintptr_t start, size_t os_page_bytes, uint64_t *entries,
                  size_t count);

/* Whether the page is in memory and mapped by no other process. */
static inline bool
pagemap_is_own(uint64_t entry)
{
    const uint64_t present = (uint64_t)1 << 63, exclusive = (uint64_t)1 << 56;
    return (entry & (present | exclusive)) == (present | exclusive);
}

/* Whether the page holds anything: in memory, or swapped out. */
static inline bool
pagemap_is_there(uint64_t entry)
{
    const uint64_t present = (uint64_t)1 << 63, swapped = (uint64_t)1 << 62;
    return (entry & (present | swapped)) != 0;
}

#endif
