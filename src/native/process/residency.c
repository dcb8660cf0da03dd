/* Goes through /proc/self/maps, and through the entries of /proc/self/pagemap of what it lists. */
#define _GNU_SOURCE
#include "residency.h"

#include "os_page.h"
#include "pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANGE_MAX_BYTES ((uintptr_t)64 << 30)
#define WORD_BITS 64

typedef struct {
    uintptr_t start, end;
} memory_range;

/* From one line: start-end, permissions, offset, device, inode, path. */
static bool
parse_line(char *line, memory_range *range)
{
    char *at;
    range->start = strtoul(line, &at, 16);
    if (*at != '-') { /* not reached: a kernel that writes lines in another way */
        return false;
    }
    range->end = strtoul(at + 1, &at, 16);
    bool is_ours = strncmp(at, " rw-p", 5) == 0;
    /* not reached: a kernel that writes lines in another way */
    for (int fields = 0; fields < 3 && at != NULL; fields++) {
        at = strchr(at + 1, ' ');
    }
    return is_ours && at != NULL /* not reached: a kernel that writes lines in another way */
           && strtoul(at, NULL, 10) == 0 && range->end - range->start <= RANGE_MAX_BYTES;
}

static int
push(scratch_stack *stack, uintptr_t item)
{
    return scratch_stack_push(stack, (void *)item);
}

/* A word of bits from up to WORD_BITS OS pages. Returns 0 or errno. */
static int
look_at_pages(residency *seen, int pagemap, uintptr_t start, size_t os_pages)
{
    uint64_t entries[WORD_BITS];
    uint64_t word = 0;
    if (!pagemap_read(pagemap, start, seen->os_page_bytes, entries, os_pages)) {
        return EIO;
    }
    for (size_t i = 0; i < os_pages; i++) {
        word |= (uint64_t)pagemap_is_there(entries[i]) << i;
    }
    return push(&seen->words, word);
}

static int
look_at_range(residency *seen, int pagemap, const memory_range *range)
{
    int err = push(&seen->ranges, range->start);
    err = err ? err : push(&seen->ranges, range->end);
    err = err ? err : push(&seen->ranges, seen->words.count);
    size_t step = WORD_BITS * seen->os_page_bytes;
    for (uintptr_t at = range->start; !err && at < range->end; at += step) {
        size_t left = (range->end - at) / seen->os_page_bytes;
        err = look_at_pages(seen, pagemap, at, left < WORD_BITS ? left : WORD_BITS);
    }
    return err;
}

/* The file is read in pieces, which need not end where a line does. */
static int
look_at_ranges(residency *seen, int maps, int pagemap)
{
    char text[8192];
    size_t kept = 0;
    ssize_t got;
    while ((got = read(maps, text + kept, sizeof text - 1 - kept)) > 0) {
        char *line = text, *end;
        text[kept + (size_t)got] = 0;
        while ((end = strchr(line, '\n')) != NULL) {
            memory_range range;
            *end = 0;
            int err = parse_line(line, &range) ? look_at_range(seen, pagemap, &range) : 0;
            if (err) {
                return err;
            }
            line = end + 1;
        }
        kept = strlen(line);
        memmove(text, line, kept);
    }
    return got < 0 ? errno : 0;
}

int
residency_take(residency *seen)
{
    *seen = (residency){.os_page_bytes = os_page_get_bytes()};
    int pagemap = pagemap_open();
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    int err = maps < 0 || pagemap < 0 ? errno : look_at_ranges(seen, maps, pagemap);
    if (maps >= 0) {
        (void)close(maps);
    }
    if (pagemap >= 0) {
        (void)close(pagemap);
    }
    if (err) {
        residency_release(seen);
    }
    return err;
}

static int
compare(const void *address, const void *range)
{
    uintptr_t at = *(const uintptr_t *)address;
    void *const *bounds = range;
    return at < (uintptr_t)bounds[0] ? -1 : at >= (uintptr_t)bounds[1];
}

/* The range that an address lies in, or NULL. */
static void *const *
find_range(const residency *seen, uintptr_t address)
{
    return bsearch(&address, seen->ranges.items, seen->ranges.count / RESIDENCY_RANGE_ITEMS,
                   RESIDENCY_RANGE_ITEMS * sizeof(void *), compare);
}

static bool
page_was_there(const residency *seen, uintptr_t address)
{
    void *const *range = find_range(seen, address);
    if (range == NULL) {
        return false;
    }
    size_t os_page = (address - (uintptr_t)range[0]) / seen->os_page_bytes;
    uint64_t word = (uint64_t)seen->words.items[(uintptr_t)range[2] + os_page / WORD_BITS];
    return word >> os_page % WORD_BITS & 1;
}

bool
residency_was_there(const residency *seen, const void *start, size_t bytes)
{
    uintptr_t last = (uintptr_t)start + bytes - 1;
    for (uintptr_t at = (uintptr_t)start; at < last; at += seen->os_page_bytes) {
        if (page_was_there(seen, at)) {
            return true;
        }
    }
    return page_was_there(seen, last);
}

void
residency_release(residency *seen)
{
    scratch_stack_release(&seen->ranges);
    scratch_stack_release(&seen->words);
}
