/* What pages.py cannot do in RPython: mappings, and the sweep of one page by the word. */

#ifndef PASTURE_PAGES_H
#define PASTURE_PAGES_H

/* Maps an arena, aligned to page_bytes (a power of two, at least an OS page), and its marks.
 * Returns NULL: no memory for the one or the other, or out of the marks' reach. */
void *pasture_arena_map(long arena_bytes, long page_bytes);

void pasture_arena_unmap(void *arena, long arena_bytes);

/* The system may take the memory of an arena that holds nothing, when it needs it. */
void pasture_arena_offer(void *arena, long arena_bytes);

/* The stock sweep has just touched the dead objects whose place is taken now; ours has not, so
 * the blocks that `malloc` hands out next are fetched ahead. */
static inline void
pasture_prefetch_blocks(void *block)
{
    __builtin_prefetch((char *)block + 512, 1);
}

/* Sweeps a page of 8 KiB: what is not marked is not allocated any more. Clears the page's
 * marks and returns the number of survivors. `allocated` + `first_word` is the page's bitmap
 * of 16 words, one bit for each 8 bytes, set at the start of each block in use; it is written
 * only where it changes, and not at all unless `owned`. The last two arguments are for the
 * model of this function that untranslated tests run on. */
long pasture_sweep_page(void *page, unsigned long *allocated, long first_word, long owned,
                        long block_bytes, long block_count);

#endif
