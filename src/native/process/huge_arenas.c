/* Takes 2 MiB at a time, lets the kernel fill them with one huge page, and cuts arenas from them.
 *
 * Invariant: no mapping stays marked for huge pages. A child that touches memory for the first time
 * would get 2 MiB of its own, and khugepaged would copy its small pages into a huge one.
 *
 * Interpreters with a lock of their own take arenas at the same time: one that finds the other at it
 * takes a small one.
 */
#define _GNU_SOURCE
#include "../module.h"

#include "huge_arenas.h"

#include "os_page.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define SMALL_BYTES ((size_t)64 << 20)

static PyObjectArenaAllocator stock; /* gives all of them back, by munmap() */
static _Atomic pid_t user;
static atomic_size_t taken_bytes;
static atomic_flag cutting = ATOMIC_FLAG_INIT;
static char *rest, *end; /* of the page that is cut, by who has set `cutting` */

static bool
is_user(void)
{
    return getpid() == atomic_load(&user);
}

/* An aligned range with a huge page in it, if the kernel has one free and its settings allow it. */
static char *
take_huge_page(void)
{
    char *start =
        mmap(NULL, 2 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    size_t before = -(uintptr_t)start & (HUGE_BYTES - 1);
    if (before) {
        (void)munmap(start, before);
    }
    (void)munmap(start + before + HUGE_BYTES, HUGE_BYTES - before);
    char *page = start + before;
    if (madvise(page, HUGE_BYTES, MADV_HUGEPAGE) == 0) {
        *(volatile char *)page = 0;
        (void)madvise(page, HUGE_BYTES, MADV_NOHUGEPAGE);
    }
    return page;
}

static char *
cut(size_t bytes)
{
    if ((size_t)(end - rest) < bytes) {
        rest = take_huge_page();
        end = rest == NULL ? NULL : rest + HUGE_BYTES;
    }
    char *arena = rest;
    if (arena != NULL) {
        rest += bytes;
    }
    return arena;
}

static void *
take_arena(void *Py_UNUSED(context), size_t bytes)
{
    char *arena = NULL;
    if (is_user() && HUGE_BYTES % bytes == 0 && atomic_fetch_add(&taken_bytes, bytes) >= SMALL_BYTES
        && !atomic_flag_test_and_set(&cutting)) {
        arena = cut(bytes);
        atomic_flag_clear(&cutting);
    }
    return arena != NULL ? arena : stock.alloc(stock.ctx, bytes);
}

void
huge_arenas_use(void)
{
    PyObjectArenaAllocator now;
    PyObject_GetArenaAllocator(&now);
    if (os_page_get_bytes() != MIN_OS_PAGE_BYTES || is_user()) {
        return; /* where small pages are larger, so are huge ones */
    }
    rest = end = NULL; /* a parent's, shared with it */
    atomic_flag_clear(&cutting);
    atomic_store(&taken_bytes, 0);
    atomic_store(&user, getpid());
    if (now.alloc != take_arena) {
        stock = now;
        now.alloc = take_arena;
        PyObject_SetArenaAllocator(&now);
    }
}

bool
huge_arenas_are_taken(void)
{
    return is_user() && atomic_load(&taken_bytes) > SMALL_BYTES;
}
