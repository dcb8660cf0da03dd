/* Plugs the holes of an allocator that is not known, by what it does.
 *
 * An allocator that has a free block between others hands it out before it takes fresh memory. So
 * for each size blocks are taken until they come from pages that were not in memory before the
 * first was taken: those are not plugs, and are given back. Caches may mix both kinds, so a few
 * fresh blocks are held until a size ends. What an allocator keeps wholly free and in memory is
 * filled as well, unless it was given back before: it is lost for the children, who get as much
 * fresh memory in its place.
 *
 * The memory of the process grows only by the fresh blocks that are held.
 */
#define _GNU_SOURCE
#include "malloc_allocator.h"

#include "../process/residency.h"

/* Sizes: each multiple of 16 up to 1 KiB, and above it 16 for each doubling. No allocator has more
   classes than that, and a class that is met twice has no hole at the second time. From 32 KiB on
   a block fills its pages except the last: it makes no hole that a child would share. */
#define STEP_BYTES ((size_t)16)
#define FINE_MAX_BYTES ((size_t)1024)
#define SIZES_IN_DOUBLING 16
#define MAX_BYTES ((size_t)32 << 10)

/* Fresh blocks that are held at most, whatever limit is given. */
#define FRESH_MAX 4096

typedef struct {
    residency before;
    fresh_limit fresh;
    plug_counts *plugged;
    void **held; /* room for FRESH_MAX */
} filling;

static void
fill_size(const filling *work, block_source source, size_t bytes)
{
    size_t held = 0;
    while (held < FRESH_MAX && held < work->fresh.blocks && held * bytes < work->fresh.bytes) {
        void *block = source.take(bytes);
        if (block == NULL) {
            break;
        }
        if (residency_was_there(&work->before, block, bytes)) {
            work->plugged->blocks++;
            work->plugged->bytes += bytes;
        }
        else {
            work->held[held++] = block;
        }
    }
    while (held) {
        source.give(work->held[--held]);
    }
}

/* `doubling`: the power of two below `bytes`; FINE_MAX_BYTES at first. */
static size_t
next_larger(size_t bytes, size_t *doubling)
{
    if (bytes >= *doubling * 2) {
        *doubling *= 2;
    }
    return bytes + (bytes < FINE_MAX_BYTES ? STEP_BYTES : *doubling / SIZES_IN_DOUBLING);
}

static void
fill_sizes(const filling *work, block_source source)
{
    size_t doubling = FINE_MAX_BYTES;
    for (size_t bytes = STEP_BYTES; bytes <= MAX_BYTES; bytes = next_larger(bytes, &doubling)) {
        fill_size(work, source, bytes);
    }
}

int
plug_resident_holes(const block_source *sources, size_t count, fresh_limit fresh,
                    plug_counts *plugged)
{
    filling work = {.fresh = fresh, .plugged = plugged};
    const size_t held_bytes = FRESH_MAX * sizeof *work.held;
    void *held;
    int err = scratch_map(&held, held_bytes);
    if (err) {
        return err;
    }
    work.held = held;
    err = residency_take(&work.before);
    for (size_t i = 0; !err && i < count; i++) {
        fill_sizes(&work, sources[i]);
    }
    residency_release(&work.before);
    scratch_unmap(held, held_bytes);
    return err;
}
