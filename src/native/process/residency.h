/* Which OS pages of the process were in memory at one moment.
 *
 * A caller that asks an allocator for a block afterwards learns whether it lies in memory that was
 * in use before, or in fresh memory, without knowing the allocator. Only private memory that may be
 * written and belongs to no file is looked at. Nothing here goes through malloc.
 */
#ifndef PASTURE_RESIDENCY_H
#define PASTURE_RESIDENCY_H

#include "scratch.h"

#include <stdint.h>

#define RESIDENCY_RANGE_ITEMS 3

/* All zero, it knows of no page. */
typedef struct {
    size_t os_page_bytes;
    scratch_stack ranges; /* sorted; each: start, end, number of its first word */
    scratch_stack words;  /* a bit for each OS page of a range, the first page lowest */
} residency;

/* Look now. Returns 0; or errno, with `seen` empty, where /proc does not say or memory cannot be
   had. Ranges of more than 64 GiB are left out: reservations of address space. */
int residency_take(residency *seen);

/* Whether any page of these bytes was in memory (or swapped out). Precondition: `bytes` > 0. */
bool residency_was_there(const residency *seen, const void *start, size_t bytes);

void residency_release(residency *seen);

#endif
