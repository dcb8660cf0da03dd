/* Memory of this process that is put into huge pages, once it is sealed.
 *
 * A fork then copies one entry of the page table for 2 MiB in place of 512, and a child that reads
 * the heap misses the TLB less often. A child that writes still copies one small page: the kernel
 * splits the huge one in that child's page table alone.
 */
#ifndef PASTURE_HUGE_PAGES_H
#define PASTURE_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t ranges;    /* as large as a huge page, aligned, and fit for one */
    size_t collapsed; /* of those: in a huge page now */
    size_t refused;   /* of those: the kernel left them as they were */
} huge_pages_counts;

/* Collapse the ranges that are all but full of pages which no other process maps, until the thread has
   taken `limit_ns` (what it waits for its turn does not count), or the kernel has no huge page left.
   Fewer than `min_ranges` are left alone.
   Precondition: `huge_bytes` is what the kernel's huge pages have. Returns 0 or errno. */
int huge_pages_collapse(size_t huge_bytes, size_t min_ranges, uint64_t limit_ns,
                        huge_pages_counts *counts);

#endif
