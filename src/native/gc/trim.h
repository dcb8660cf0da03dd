/* Gives free memory of the process back to the system.
 *
 * Otherwise what one request needed at its peak stays with the worker: pymalloc unmaps an arena
 * only once all of its pools are free, and glibc cuts its heap only at the top.
 */
#ifndef PASTURE_TRIM_H
#define PASTURE_TRIM_H

#include <stddef.h>

/* Give back what can be of pymalloc's free pools: all but their first OS page, which links
   them. Pages that are shared with the parent of a fork are left alone: they cost nothing.
   Returns the bytes given back; 0 where pymalloc does not serve objects, before CPython 3.13,
   and where /proc/self/pagemap cannot be read. */
size_t trim_pools(void);

/* Give back whole free OS pages of malloc's heaps. The main heap stays as long as malloc itself
   would leave it: its end is emptied, not cut off. */
void trim_chunks(void);

#endif
