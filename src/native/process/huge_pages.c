/* Chooses ranges by /proc/self/pagemap, and hands each to madvise(2) with MADV_COLLAPSE.
 *
 * Pages that another process maps are left: the kernel would copy them, and both would have one.
 * So are ranges with many pages that hold nothing, which would be filled with zeroes. Those
 * without any, as stacks of threads that wait, are what the kernel refuses with EINVAL.
 */
#define _GNU_SOURCE
#include "huge_pages.h"

#include "clock.h"
#include "os_page.h"
#include "pagemap.h"
#include "residency.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#  define MADV_COLLAPSE 25 /* Linux 6.1; an older one answers EINVAL */
#endif

/* One page in this many may hold nothing: the memory that filling takes is at most that part. */
#define EMPTY_PART 16

#define ENTRIES 512

typedef struct {
    int pagemap;
    size_t os_page_bytes;
    size_t huge_bytes;
    scratch_stack found; /* the first address of each range that is fit */
} huge_pages_work;

/* Whether all but a few pages are there, and each of them is this process's own. */
static bool
is_fit(const huge_pages_work *work, uintptr_t start)
{
    size_t pages = work->huge_bytes / work->os_page_bytes, empty = 0;
    uint64_t entries[ENTRIES];
    for (size_t at = 0; at < pages; at += ENTRIES) {
        size_t count = pages - at < ENTRIES ? pages - at : ENTRIES;
        if (!pagemap_read(work->pagemap, start + at * work->os_page_bytes, work->os_page_bytes,
                          entries, count)) {
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            if (pagemap_is_there(entries[i]) && !pagemap_is_own(entries[i])) {
                return false;
            }
            empty += !pagemap_is_there(entries[i]);
        }
    }
    return empty <= pages / EMPTY_PART;
}

static int
find_in_range(huge_pages_work *work, uintptr_t start, uintptr_t end)
{
    uintptr_t mask = work->huge_bytes - 1;
    for (uintptr_t at = (start + mask) & ~mask; at < end && end - at > mask; at += mask + 1) {
        int err = is_fit(work, at) ? scratch_stack_push(&work->found, (void *)at) : 0;
        if (err) {
            return err;
        }
    }
    return 0;
}

static int
find_ranges(huge_pages_work *work)
{
    residency seen;
    int err = residency_take(&seen);
    for (size_t i = 0; !err && i < seen.ranges.count; i += RESIDENCY_RANGE_ITEMS) {
        err = find_in_range(work, (uintptr_t)seen.ranges.items[i],
                            (uintptr_t)seen.ranges.items[i + 1]);
    }
    residency_release(&seen);
    return err;
}

/* Time that passes, without that for which the thread was ready and others had the processors: a busy machine
   collapses as much as an idle one. All time counts where the kernel does not say. */
static uint64_t
own_time_ns(int schedstat)
{
    char text[64];
    ssize_t length = pread(schedstat, text, sizeof text - 1, 0); /* ns run, ns waited, turns */
    text[length > 0 ? length : 0] = 0;
    char *waited = text;
    (void)strtoull(text, &waited, 10);
    return clock_monotonic_ns() - strtoull(waited, NULL, 10);
}

/* Until the time is over. Where the kernel, or a control group, has no memory for one, it has none
   for the next either. */
static void
collapse_found(const huge_pages_work *work, uint64_t limit_ns, huge_pages_counts *counts)
{
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    uint64_t end_ns = own_time_ns(schedstat) + limit_ns;
    for (size_t i = 0; i < work->found.count && own_time_ns(schedstat) < end_ns; i++) {
        if (madvise(work->found.items[i], work->huge_bytes, MADV_COLLAPSE) == 0) {
            counts->collapsed++;
            continue;
        }
        counts->refused++;
        if (errno == ENOMEM || errno == EBUSY) {
            break;
        }
    }
    if (schedstat >= 0) {
        (void)close(schedstat);
    }
}

int
huge_pages_collapse(size_t huge_bytes, size_t min_ranges, uint64_t limit_ns,
                    huge_pages_counts *counts)
{
    huge_pages_work work = {.os_page_bytes = os_page_get_bytes(), .huge_bytes = huge_bytes};
    work.pagemap = pagemap_open();
    int err = work.pagemap < 0 ? errno : find_ranges(&work);
    if (!err) {
        counts->ranges = work.found.count;
        if (work.found.count >= min_ranges) {
            collapse_found(&work, limit_ns, counts);
        }
    }
    if (work.pagemap >= 0) {
        (void)close(work.pagemap);
    }
    scratch_stack_release(&work.found);
    return err;
}
