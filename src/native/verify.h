/* The verifier of the check build (PASTURE_CHECK): runs after every change of the heap
 * and aborts the process at the first broken invariant. Elsewhere it compiles to nothing.
 */
#ifndef PASTURE_VERIFY_H
#define PASTURE_VERIFY_H

#ifdef PASTURE_CHECK
/* Every list is circular with matching links, and its objects have a type. */
void verify_lists(void);
/* After immortalizing: every listed object but running things is immortal. */
void verify_heap_is_immortal(void);
#else
static inline void
verify_lists(void)
{
}
static inline void
verify_heap_is_immortal(void)
{
}
#endif

#endif
