/* The slow half of marks.h: leaves come and go. */

#define _GNU_SOURCE
#include "marks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

unsigned long *pasture_marks_root[PASTURE_ROOT_LENGTH];

/* Index of each leaf in the root, so that giving back does not walk 131,072 entries. */
static unsigned leaves[PASTURE_ROOT_LENGTH];
static unsigned leaf_count;

static uintptr_t prebuilt_low = UINTPTR_MAX;
static uintptr_t prebuilt_high;

#ifdef PASTURE_CHECK
/* Failures made to order, in check builds only: the reach in bits, and the number of leaves
 * that may be mapped before mapping one more fails. */
static long
ordered(const char *name, long otherwise)
{
    const char *value = getenv(name);
    return value == NULL ? otherwise : atol(value);
}

int
pasture_marks_forgets(void)
{
    static long number, forgotten = -1;
    if (forgotten < 0) {
        forgotten = ordered("PASTURE_CHECK_FORGET", 0);
    }
    return ++number == forgotten;
}
#endif

static int
within_reach(uintptr_t address)
{
#ifdef PASTURE_CHECK
    return address >> ordered("PASTURE_CHECK_REACH_BITS", PASTURE_REACH_BITS) == 0;
#else
    return address >> PASTURE_REACH_BITS == 0;
#endif
}

/* Returns NULL when there is no memory.
 *
 * Under mlockall(MCL_FUTURE) a new writable mapping is filled at once, 16 MiB of it. It is
 * therefore mapped without access and unlocked before it becomes writable. A huge page would
 * turn one mark into 2 MiB. */
static unsigned long *
map_leaf(void)
{
#ifdef PASTURE_CHECK
    if (leaf_count >= ordered("PASTURE_CHECK_LEAVES", PASTURE_ROOT_LENGTH)) {
        return NULL;
    }
#endif
    void *leaf = mmap(NULL, PASTURE_LEAF_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (leaf == MAP_FAILED) {
        return NULL;
    }
    (void)munlock(leaf, PASTURE_LEAF_BYTES);
    if (mprotect(leaf, PASTURE_LEAF_BYTES, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(leaf, PASTURE_LEAF_BYTES);
        return NULL;
    }
    (void)madvise(leaf, PASTURE_LEAF_BYTES, MADV_NOHUGEPAGE);
    return leaf;
}

long
pasture_marks_reserve(void *address)
{
    if (!within_reach((uintptr_t)address)) {
        return -1;
    }
    unsigned long index = (uintptr_t)address >> PASTURE_LEAF_BITS;
    if (pasture_marks_root[index] == NULL) {
        unsigned long *leaf = map_leaf();
        if (leaf == NULL) {
            return -1;
        }
        pasture_marks_root[index] = leaf;
        leaves[leaf_count++] = (unsigned)index;
    }
    return 0;
}

void
pasture_marks_set_slowly(void *address)
{
    if (pasture_marks_reserve(address) != 0) {
        fprintf(stderr, "out of memory: no room for the collector's marks of %p\n", address);
        abort();
    }
    (void)pasture_marks_set(address);
}

void
pasture_marks_note_prebuilt(void *address)
{
    if ((uintptr_t)address < prebuilt_low) {
        prebuilt_low = (uintptr_t)address;
    }
    if ((uintptr_t)address > prebuilt_high) {
        prebuilt_high = (uintptr_t)address;
    }
}

/* Clears the marks of the prebuilt range that lie in this leaf; writes only where one is. */
static void
clear_prebuilt(unsigned index)
{
    uintptr_t leaf_start = (uintptr_t)index << PASTURE_LEAF_BITS;
    uintptr_t leaf_last = leaf_start + ((uintptr_t)1 << PASTURE_LEAF_BITS) - 1;
    if (prebuilt_low > leaf_last || prebuilt_high < leaf_start) {
        return;
    }
    uintptr_t from = prebuilt_low > leaf_start ? prebuilt_low : leaf_start;
    uintptr_t to = prebuilt_high < leaf_last ? prebuilt_high : leaf_last;
    unsigned long *leaf = pasture_marks_root[index];
    for (unsigned long word = pasture_marks_word((void *)from);
         word <= pasture_marks_word((void *)to); word++) {
        if (leaf[word] != 0) {
            leaf[word] = 0;
        }
    }
}

void
pasture_marks_give_back(void)
{
    for (unsigned i = 0; i < leaf_count; i++) {
        unsigned long *leaf = pasture_marks_root[leaves[i]];
        if (madvise(leaf, PASTURE_LEAF_BYTES, MADV_DONTNEED) != 0) {
            clear_prebuilt(leaves[i]);
        }
    }
    prebuilt_low = UINTPTR_MAX;
    prebuilt_high = 0;
}

long
pasture_marks_stray(void)
{
    long stray = 0;
    for (unsigned i = 0; i < leaf_count; i++) {
        clear_prebuilt(leaves[i]);
        unsigned long *leaf = pasture_marks_root[leaves[i]];
        for (unsigned long word = 0; word < PASTURE_LEAF_WORDS; word++) {
            stray += __builtin_popcountl(leaf[word]);
        }
    }
    return stray;
}
