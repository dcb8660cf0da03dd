/* Plugs for holes: free blocks that lie between shared objects.
 *
 * A child that allocates in a hole writes to a page that is shared otherwise. The parent fills the
 * holes before it forks: then a child gets only fresh memory, at the same cost and without a change
 * of the allocator. A filled hole (a plug) is never freed.
 *
 * Blocks are taken through the public functions of the allocators alone.
 */
#ifndef PASTURE_PLUG_H
#define PASTURE_PLUG_H

#include <stddef.h>

typedef struct {
    size_t blocks;
    size_t bytes;
} plug_counts;

/* Fill the free chunks of glibc's main heap below its top chunk. Other heaps (arenas of threads)
   stay as they are. Returns 0; or -1, with no exception set, where malloc does not serve this
   thread from that heap, or where its ends cannot be found (no /proc, another user of the program
   break). */
int plug_malloc_holes(plug_counts *plugged);

/* Fill the free blocks of pymalloc's pools in use. Free pools stay free: they are dense. Returns 0;
   or -1, with no exception set, where pymalloc does not serve objects or hooks hide it. */
int plug_pymalloc_holes(plug_counts *plugged);

#endif
