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

/* The plugged holes of malloc. */
typedef struct {
    plug_counts counts;
    const char *allocator; /* which one serves malloc, as far as it is known; never NULL */
    const char *means;     /* how its holes were filled; or why they were not */
} plug_malloc_report;

/* Fill the free blocks of the allocator that serves this thread's malloc, and of the one behind the
   interpreter's raw memory where that is another. Whole free pages go back to the system before, as
   far as the allocator offers it. Heaps of other threads stay as they are. Returns 0; or -1, with no
   exception set, where nothing could be done. */
int plug_malloc_holes(plug_malloc_report *report);

/* Fill the free blocks of pymalloc's pools in use. Free pools stay free: they are dense. Returns 0;
   or -1, with no exception set, where pymalloc does not serve objects or hooks hide it. */
int plug_pymalloc_holes(plug_counts *plugged);

#endif
