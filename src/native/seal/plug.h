/* Free blocks that lie between shared objects ("holes").
 *
 * A child that allocates in a hole writes to a page that is shared otherwise. Filled in
 * the parent, holes leave a child only fresh memory, at the same cost and without a
 * change of the allocator. A filled hole ("plug") is never freed.
 *
 * Only the allocators' public functions are used to take blocks.
 */
#ifndef PASTURE_PLUG_H
#define PASTURE_PLUG_H

#include <stddef.h>

typedef struct {
    size_t blocks;
    size_t bytes;
} plug_counts;

/* Fill the free chunks of glibc's main heap below its top chunk. Other heaps (arenas of
   threads) stay as they are. Returns 0, or -1 where malloc does not serve this thread from it
   or where the ends of that heap cannot be told (no /proc, another user of the program break). */
int plug_malloc_holes(plug_counts *plugged);

/* Fill the free blocks of pymalloc's pools in use; free pools stay free: they are dense.
   Returns 0, or -1 where pymalloc does not serve objects or cannot be seen through. */
int plug_pymalloc_holes(plug_counts *plugged);

#endif
