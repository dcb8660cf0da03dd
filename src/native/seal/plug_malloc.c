/* Plugs the holes of malloc: which allocator that is, and how its holes are filled.
 *
 * glibc's heap has a known end, so what lies before it is filled exactly (plug_glibc.c). Of any
 * other allocator only its behaviour is used (plug_resident.c): one that is known is asked for
 * whole free pages before, one that is not known is taken as it is.
 *
 * The interpreter may have an allocator linked into it that other libraries do not see; so the
 * blocks behind its raw memory are looked at as well.
 */
#define _GNU_SOURCE
#include "malloc_allocator.h"

#include "../cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

#include <stdlib.h>

static const block_source sources[] = {{malloc, free}, {PyMem_RawMalloc, PyMem_RawFree}};

static const malloc_allocator *const known[] = {&malloc_jemalloc, &malloc_tcmalloc,
                                                &malloc_mimalloc};

static const fresh_limit UNKNOWN_FRESH = {4096, (size_t)64 << 10};

/* Hooks add to each block, or keep a record of it. */
static bool
raw_memory_is_plain(void)
{
    const char *name = cpy_allocator_name();
    return name != NULL && (strcmp(name, "pymalloc") == 0 || strcmp(name, "malloc") == 0);
}

static const malloc_allocator *
find_known(void)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(known); i++) {
        if (known[i]->serves_malloc()) {
            return known[i];
        }
    }
    return NULL;
}

static int
plug_other(plug_malloc_report *report)
{
    const malloc_allocator *allocator = find_known();
    if (allocator != NULL) {
        allocator->give_back();
    }
    report->allocator = allocator != NULL ? allocator->name : "an unknown allocator";
    report->means = allocator != NULL ? "free pages given back, free blocks filled"
                                      : "free blocks in memory in use filled";
    size_t count = raw_memory_is_plain() ? 2 : 1;
    fresh_limit fresh = allocator != NULL ? allocator->fresh : UNKNOWN_FRESH;
    if (plug_resident_holes(sources, count, fresh, &report->counts) != 0) {
        report->means = "it is not known which memory is in use (no /proc, or no memory)";
        return -1;
    }
    return 0;
}

int
plug_malloc_holes(plug_malloc_report *report)
{
    glibc_heap heap;
    *report = (plug_malloc_report){.allocator = "glibc"};
    glibc_give_back();
    if (glibc_find_heap(&heap) && glibc_heap_serves(&heap, sources[0])) {
        report->means = "free chunks of its main heap filled";
        glibc_fill_heap(&heap, &report->counts);
        return 0;
    }
    if (glibc_is_malloc()) {
        report->means = "malloc does not serve this thread from glibc's main heap (this is not the "
                        "main thread, other code moves the program break, or there is no /proc)";
        return -1;
    }
    return plug_other(report);
}

#endif
