/* Looks through the remembered objects, page by page, as often as their number allows.
 *
 * Which pages are the process's own is read from /proc/self/pagemap, for 512 KiB of heap at a time:
 * as much as a chunk of the bitmap covers. Where it cannot be read, all counts are looked at.
 *
 * Owns the bitmap of remembered objects. An object whose address is not a multiple of 16 cannot be
 * found again from its bit and is kept as a pointer; these are in static memory, and few of
 * them are made immortal by pasture.
 */
#define _GNU_SOURCE
#include "refcounts.h"

#ifndef CPY_UNSUPPORTED
#if CPY_HAS_IMMORTALITY

#include "../process/clock.h"
#include "../process/os_page.h"
#include "../process/pagemap.h"
#include "../process/scratch.h"
#include "mark_bits.h"

#include <errno.h>
#include <unistd.h>

#define CHUNK_BYTES (MARK_BITS_CHUNK_WORDS << (MARK_BITS_WORD_LOG2 + MARK_BITS_GRANULE_LOG2))

/* A look may take 1 / COST_PARTS of the processor time. */
#define COST_PARTS 100u

/* But processor time between two looks is no longer than this. A call takes 20 ns at the least,
   so that 2^30 of them take 20 s. */
#define LONGEST_PAUSE_NS 10000000000u

#define FIRST_PAUSE_NS (LONGEST_PAUSE_NS / 4)

static mark_bits watched;
static scratch_stack unaligned;
static refcounts_history history;
static uint64_t looked_ns; /* processor time at the end of the last look */
static uint64_t pause_ns;  /* until the next one */

static int
remember(PyObject *op)
{
    if (watched.tables == NULL) {
        int err = mark_bits_init(&watched);
        if (err) {
            return err;
        }
        looked_ns = clock_processor_ns(); /* counts are set now, and none has drifted */
        pause_ns = FIRST_PAUSE_NS;
    }
    return mark_bits_mark(&watched, op);
}

int
refcounts_watch(PyObject *op)
{
    return mark_bits_is_aligned(op) ? remember(op) : scratch_stack_push(&unaligned, op);
}

bool
refcounts_is_watched(const void *op)
{
    return watched.tables != NULL /* not reached: what asks follows what was sealed */
           && mark_bits_is_marked(&watched, op);
}

/* Set the count again if it has drifted. */
static void
look_at(PyObject *op)
{
    history.counts++;
    if (cpy_count_state_of(op) == CPY_COUNT_DRIFTED) {
        cpy_count_reset(op);
        history.restored++;
    }
}

/* All remembered objects of some words of a leaf. */
static void
look_at_words(const mark_bits_leaf *leaf, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        for (uint64_t left = leaf->marked[i]; left; left &= left - 1) {
            look_at(mark_bits_object_at(leaf, i, (unsigned int)__builtin_ctzll(left)));
        }
    }
}

/* The chunk of the bitmap from word `first` on. */
static void
look_at_chunk(int pagemap, size_t os_page_bytes, const mark_bits_leaf *leaf, size_t first)
{
    uint64_t entries[CHUNK_BYTES / MIN_OS_PAGE_BYTES];
    size_t count = CHUNK_BYTES / os_page_bytes;
    size_t words = MARK_BITS_CHUNK_WORDS / count;
    uintptr_t start = leaf->base + (first << (MARK_BITS_WORD_LOG2 + MARK_BITS_GRANULE_LOG2));
    if (!pagemap_read(pagemap, start, os_page_bytes, entries, count)) {
        look_at_words(leaf, first, first + MARK_BITS_CHUNK_WORDS);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (pagemap_is_own(entries[i])) {
            look_at_words(leaf, first + i * words, first + (i + 1) * words);
        }
    }
}

void
refcounts_restore(void)
{
    uint64_t start_ns = clock_processor_ns();
    history.looks++;
    size_t os_page_bytes = os_page_get_bytes();
    int pagemap = pagemap_open();
    bool has_pagemap =
        /* not reached: the kernel and the processor are what they are on this machine */
        pagemap >= 0 && os_page_bytes >= MIN_OS_PAGE_BYTES && os_page_bytes <= CHUNK_BYTES;
    for (const mark_bits_leaf *leaf = watched.first; leaf != NULL; leaf = leaf->next) {
        for (size_t i = 0; (i = mark_bits_skip_untouched(leaf, i)) < MARK_BITS_LEAF_WORDS;
             i += MARK_BITS_CHUNK_WORDS) {
            if (has_pagemap) {
                look_at_chunk(pagemap, os_page_bytes, leaf, i);
            }
            else {
                look_at_words(leaf, i, i + MARK_BITS_CHUNK_WORDS);
            }
        }
    }
    for (size_t i = 0; i < unaligned.count; i++) {
        look_at(unaligned.items[i]);
    }
    if (pagemap >= 0) {
        (void)close(pagemap);
    }
    looked_ns = clock_processor_ns();
    pause_ns = Py_MIN((looked_ns - start_ns) * COST_PARTS, LONGEST_PAUSE_NS);
}

void
refcounts_restore_if_due(void)
{
    if (watched.tables == NULL) {
        return;
    }
    uint64_t now_ns = clock_processor_ns();
    if (now_ns < looked_ns) { /* the child of a fork: its time starts again */
        looked_ns = 0;
    }
    if (now_ns - looked_ns >= pause_ns) {
        refcounts_restore();
    }
}

const refcounts_history *
refcounts_get_history(void)
{
    history.bytes = watched.bytes + unaligned.capacity * sizeof *unaligned.items;
    return &history;
}

void
refcounts_forget(void)
{
    if (watched.tables != NULL) {
        mark_bits_release(&watched);
    }
    watched = (mark_bits){0};
    scratch_stack_release(&unaligned);
    history = (refcounts_history){0};
    looked_ns = pause_ns = 0;
}

#else /* no immortality: nothing is watched */

int
refcounts_watch(PyObject *Py_UNUSED(op))
{
    return 0;
}

void
refcounts_restore(void)
{
}

void
refcounts_restore_if_due(void)
{
}

void
refcounts_forget(void)
{
}

const refcounts_history *
refcounts_get_history(void)
{
    static const refcounts_history none;
    return &none;
}

#endif
#endif
