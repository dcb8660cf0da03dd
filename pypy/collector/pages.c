/* Arenas and the sweep of one page; see pages.h. */

#define _GNU_SOURCE
#include "pages.h"
#include "marks.h"

#include <stdint.h>
#include <sys/mman.h>

#define PAGE_WORDS 16 /* 8 KiB at a bit for each 8 bytes */

#if defined(__x86_64__) && defined(__GLIBC__)
#define WITH_POPCNT __attribute__((target_clones("popcnt", "default")))
#else
#define WITH_POPCNT
#endif

/* A mapping is aligned to an OS page only. As a rule it lies right below the arena before it
 * and is aligned like that one; else map more and trim. */
static void *
map_aligned(uintptr_t size, uintptr_t alignment)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *mapped = mmap(NULL, size, protection, flags, -1, 0);
    if (mapped == MAP_FAILED) {
        return NULL;
    }
    if ((uintptr_t)mapped % alignment == 0) {
        return mapped;
    }
    (void)munmap(mapped, size);
    mapped = mmap(NULL, size + alignment, protection, flags, -1, 0);
    if (mapped == MAP_FAILED) {
        return NULL;
    }
    uintptr_t before = -(uintptr_t)mapped % alignment;
    if (before != 0) {
        (void)munmap(mapped, before);
    }
    (void)munmap(mapped + before + size, alignment - before);
    return mapped + before;
}

void *
pasture_arena_map(long arena_bytes, long page_bytes)
{
    char *arena = map_aligned((uintptr_t)arena_bytes, (uintptr_t)page_bytes);
    if (arena == NULL) {
        return NULL;
    }
    if (pasture_marks_reserve(arena) != 0 || pasture_marks_reserve(arena + arena_bytes - 1) != 0) {
        pasture_arena_unmap(arena, arena_bytes);
        return NULL;
    }
    return arena;
}

void
pasture_arena_unmap(void *arena, long arena_bytes)
{
    (void)munmap(arena, (uintptr_t)arena_bytes);
}

void
pasture_arena_offer(void *arena, long arena_bytes)
{
#ifdef MADV_FREE
    (void)madvise(arena, (uintptr_t)arena_bytes, MADV_FREE);
#endif
}

WITH_POPCNT long
pasture_sweep_page(void *page, unsigned long *allocated, long first_word, long owned,
                   long block_bytes, long block_count)
{
    (void)block_bytes;
    (void)block_count;
    unsigned long *marks = pasture_marks_leaf(page) + pasture_marks_word(page);
    long survivors = 0;
    allocated += first_word;
    for (int i = 0; i < PAGE_WORDS; i++) {
        unsigned long marked = marks[i];
        if (owned && allocated[i] != marked) {
            allocated[i] &= marked;
        }
        if (marked != 0) {
            survivors += __builtin_popcountl(marked);
            marks[i] = 0;
        }
    }
    return survivors;
}
