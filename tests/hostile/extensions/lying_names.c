/* The functions by which allocators are known, of a library that allocates nothing: each of them
 * claims all memory for itself, or says that it did what it was asked.
 */
#include <stdbool.h>
#include <stddef.h>

int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
int MallocExtension_GetOwnership(const void *block);
void MallocExtension_ReleaseFreeMemory(void);
bool mi_is_in_heap_region(const void *block);
void mi_collect(bool force);

int
mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
{
    (void)name, (void)old, (void)old_bytes, (void)new, (void)new_bytes;
    return 0;
}

int
MallocExtension_GetOwnership(const void *block)
{
    (void)block;
    return 1;
}

void
MallocExtension_ReleaseFreeMemory(void)
{
}

bool
mi_is_in_heap_region(const void *block)
{
    (void)block;
    return true;
}

void
mi_collect(bool force)
{
    (void)force;
}
