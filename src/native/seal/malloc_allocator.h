/* An allocator behind malloc, as the seal knows it: a row and a file for each.
 *
 * Names prove nothing: a library may be loaded, and its functions be found, although another one
 * serves malloc. So each row has a proof, which looks at what malloc does.
 */
#ifndef PASTURE_MALLOC_ALLOCATOR_H
#define PASTURE_MALLOC_ALLOCATOR_H

#include "plug.h"

#include <stdbool.h>
#include <stdlib.h>

/* A block of malloc's that no compiler leaves out: C lets it where the block is only compared and freed
   (clang does), and then nothing is seen of who serves it. */
static inline void *
probe_malloc(size_t bytes)
{
    void *volatile block = malloc(bytes);
    return block;
}

/* Of one size, this many fresh blocks, or bytes of them, show that no hole of it is left: an allocator
   hands out fresh blocks in between as long as it has a batch of them at hand. */
typedef struct {
    size_t blocks;
    size_t bytes;
} fresh_limit;

typedef struct {
    const char *name;

    /* Whether malloc, called by this thread, is this allocator's. Looks for its functions, too. */
    bool (*serves_malloc)(void);

    /* Have it give whole free pages back to the system. Only after serves_malloc() said yes. */
    void (*give_back)(void);

    fresh_limit fresh;
} malloc_allocator;

extern const malloc_allocator malloc_jemalloc;
extern const malloc_allocator malloc_tcmalloc;
extern const malloc_allocator malloc_mimalloc;

/* An allocator of which nothing is known but that it hands out blocks. */
typedef struct {
    void *(*take)(size_t bytes);
    void (*give)(void *block);
} block_source;

/* Fill what is free between blocks in memory that is in use now, of one source after the other, all
   judged by what is in use at the start (plug_resident.c). Returns 0; or errno, where it is not
   known which memory is in use: then nothing was filled. */
int plug_resident_holes(const block_source *sources, size_t count, fresh_limit fresh,
                        plug_counts *plugged);

/* glibc (plug_glibc.c), whose end of the heap is known: whether its main heap serves this thread's
   malloc, and whether `block` lies there; and the fill. */
typedef struct {
    size_t start; /* first byte of the heap, an address */
    size_t top;   /* first byte of its top chunk, before any block was taken */
} glibc_heap;

bool glibc_find_heap(glibc_heap *heap);
bool glibc_heap_serves(const glibc_heap *heap, block_source source);
void glibc_fill_heap(const glibc_heap *heap, plug_counts *plugged);
void glibc_give_back(void);

/* Whether the name malloc is glibc's own. */
bool glibc_is_malloc(void);

#endif
