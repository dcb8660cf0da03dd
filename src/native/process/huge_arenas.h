/* Arenas of pymalloc in huge pages, for a process that loads more than a few of them.
 *
 * A fork copies one entry of the page table for 2 MiB in place of 512, and who reads the heap misses
 * the TLB less often. A child that writes still copies one small page: the kernel splits the huge one
 * in that child's page table alone.
 */
#ifndef PASTURE_HUGE_ARENAS_H
#define PASTURE_HUGE_ARENAS_H

#include <stdbool.h>

/* Take arenas from huge pages once this process has taken 64 MiB of small ones. Its children take
   small ones, unless they call this, too. */
void huge_arenas_use(void);

/* Whether this process takes them by now. A child's own arenas are small ones. */
bool huge_arenas_are_taken(void);

#endif
