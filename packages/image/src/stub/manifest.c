/* Nothing of a manifest is used before all of it has been checked here, so that its users need
 * no checks of bounds. */
#define _GNU_SOURCE
#include "manifest.h"

#include "machine.h"
#include "question.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES (UINT64_C(1) << 28)
#define MAX_STACK_BYTES (UINT64_C(1) << 30)
#define MAX_AUXV_BYTES 1024u
#define MAX_DESCRIPTOR (1u << 20)
#define MAP_DROPPABLE_ 0x08u
#define FLAGS (MAP_SHARED | MAP_PRIVATE | MAP_DROPPABLE_ | MAP_ANONYMOUS | MAP_NORESERVE)
#define FILE_FLAGS (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

typedef struct {
    const manifest *m;
    const char *data;
    uint64_t bytes;
} checked;

/* ---- places in the bytes ---- */

static bool
is_table(const checked *c, uint64_t at, uint64_t count, uint64_t size)
{
    return at % sizeof(uint64_t) == 0 && at <= c->bytes && count <= (c->bytes - at) / size;
}

static bool
is_text(const checked *c, uint64_t at)
{
    return at < c->bytes && memchr(c->data + at, 0, c->bytes - at) != NULL;
}

/* Texts one behind the other, up to an empty one. */
static bool
are_texts(const checked *c, uint64_t at, bool (*is_good)(const char *))
{
    while (is_text(c, at)) {
        const char *text = c->data + at;
        if (!*text) {
            return true;
        }
        if (is_good != NULL && !is_good(text)) {
            return false;
        }
        at += strlen(text) + 1;
    }
    return false;
}

/* A table of rows that begin with the place of a text. */
static bool
have_texts(const checked *c, uint64_t at, uint64_t count, uint64_t size)
{
    if (!is_table(c, at, count, size)) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!is_text(c, *(const uint64_t *)(const void *)(c->data + at + i * size))) {
            return false;
        }
    }
    return true;
}

static bool
is_rule(const char *text)
{
    return strchr("=-^*!~", *text) != NULL && (*text != '=' || strchr(text + 1, '=') != NULL);
}

/* ---- places in memory ---- */

static bool
is_range(uint64_t start, uint64_t length)
{
    return start && length && start % OS_PAGE == 0 && length % OS_PAGE == 0 && start < LAST_ADDRESS
           && length <= LAST_ADDRESS - start;
}

static bool
is_in_region(const manifest *m, uint64_t address, uint64_t length, uint32_t protection)
{
    const manifest_region *r = manifest_regions(m);
    for (uint64_t i = 0; i < m->regions; i++) {
        if (address >= r[i].start && address - r[i].start < r[i].length
            && length <= r[i].length - (address - r[i].start)
            && (r[i].protection & protection) == protection) {
            return true;
        }
    }
    return false;
}

static bool
is_advice(uint32_t advice)
{
    /* of pasture_image/build/regions.py */
    static const uint32_t known[] = {0, 10, 14, 15, 16, 18, 102};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (advice == known[i]) {
            return true;
        }
    }
    return false;
}

static bool
is_region(const manifest *m, const manifest_region *r)
{
    bool is_anonymous = r->source == MANIFEST_ANONYMOUS;
    return is_range(r->start, r->length) && (is_anonymous || r->source < m->sources)
           && r->offset % OS_PAGE == 0 && r->offset <= INT64_MAX - r->length
           && !(r->protection & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC))
           && !(r->flags & ~(uint32_t)FLAGS) && !(r->flags & MAP_ANONYMOUS) == !is_anonymous
           && is_advice(r->advice);
}

/* ---- the parts ---- */

static bool
kernels_fit(const manifest *m)
{
    if (m->kernels > MANIFEST_KERNELS) {
        return false;
    }
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < m->kernels; i++) {
        if (!is_range(m->kernel[i].start, m->kernel[i].length)
            || m->kernel[i].length > MAX_KERNEL_BYTES - bytes) {
            return false;
        }
        bytes += m->kernel[i].length;
    }
    return true;
}

bool
manifest_meets_kernel(const manifest *m, uint64_t start, uint64_t length)
{
    for (uint64_t i = 0; i < m->kernels; i++) {
        if (manifest_meet(start, length, m->kernel[i].start, m->kernel[i].length)) {
            return true;
        }
    }
    return false;
}

static bool
regions_fit(const checked *c)
{
    const manifest *m = c->m;
    if (!is_table(c, m->regions_at, m->regions, sizeof(manifest_region))) {
        return false;
    }
    const manifest_region *r = manifest_regions(m);
    for (uint64_t i = 0; i < m->regions; i++) {
        if (!is_region(m, &r[i]) || manifest_meets_kernel(m, r[i].start, r[i].length)) {
            return false;
        }
        if (r[i].source != MANIFEST_ANONYMOUS) {
            const manifest_source *source = &manifest_sources(m)[r[i].source];
            uint64_t end = (source->bytes + OS_PAGE - 1) / OS_PAGE * OS_PAGE;
            bool is_used = source->kind == MANIFEST_IMAGE || r[i].protection;
            if (is_used && (r[i].offset > end || r[i].length > end - r[i].offset)) {
                return false; /* there is nothing behind the end of a file */
            }
        }
    }
    return true;
}

static bool
sources_fit(const checked *c)
{
    const manifest *m = c->m;
    if (!is_table(c, m->sources_at, m->sources, sizeof(manifest_source))) {
        return false;
    }
    const manifest_source *source = manifest_sources(m);
    for (uint64_t i = 0; i < m->sources; i++) {
        if (source[i].kind > MANIFEST_FILE || source[i].bytes > INT64_MAX
            || (source[i].kind == MANIFEST_FILE && !is_text(c, source[i].path))) {
            return false;
        }
    }
    return true;
}

static bool
is_read_or_appended(uint64_t flags)
{
    return (flags & FILE_FLAGS) == O_RDONLY || (flags & FILE_FLAGS) == (O_WRONLY | O_APPEND);
}

static bool
files_fit(const checked *c)
{
    const manifest *m = c->m;
    if (!is_table(c, m->files_at, m->files, sizeof(manifest_file))) {
        return false;
    }
    const manifest_file *file = manifest_at(m, m->files_at);
    for (uint64_t i = 0; i < m->files; i++) {
        if (!is_text(c, file[i].path) || file[i].number <= STDERR_FILENO
            || file[i].number >= MAX_DESCRIPTOR || file[i].flags > INT32_MAX
            || !is_read_or_appended(file[i].flags) || file[i].offset > INT64_MAX) {
            return false;
        }
    }
    return true;
}

static bool
names_fit(const checked *c)
{
    const manifest *m = c->m;
    if (!have_texts(c, m->folders_at, m->folders, sizeof(manifest_folder))
        || !have_texts(c, m->names_at, m->names, sizeof(manifest_name))) {
        return false;
    }
    const manifest_name *name = manifest_at(m, m->names_at);
    for (uint64_t i = 0; i < m->names; i++) {
        if (name[i].folder != MANIFEST_ANONYMOUS && name[i].folder >= m->folders) {
            return false;
        }
    }
    return true;
}

static bool
is_made_of(const checked *c)
{
    const manifest *m = c->m;
    if (!is_table(c, m->facts_at, m->facts, sizeof(uint64_t))
        || !have_texts(c, m->dated_at, m->dated, sizeof(manifest_dated))
        || !have_texts(c, m->searched_at, m->searched, sizeof(manifest_searched))
        || !is_table(c, m->questions_at, m->questions, sizeof(manifest_question))) {
        return false;
    }
    const manifest_searched *searched = manifest_at(m, m->searched_at);
    for (uint64_t i = 0; i < m->searched; i++) {
        if (!are_texts(c, searched[i].names, NULL) || !are_texts(c, searched[i].found, NULL)
            || !are_texts(c, searched[i].missing, NULL)) {
            return false;
        }
    }
    const manifest_question *question = manifest_at(m, m->questions_at);
    for (uint64_t i = 0; i < m->questions; i++) {
        if (question[i].number - 1 >= MANIFEST_QUESTIONS
            || (question_has_path(question[i].number) && !is_text(c, question[i].argument))) {
            return false;
        }
    }
    return true;
}

static bool
stack_fits(const manifest *m)
{
    if (m->stack_limit_bytes > MAX_STACK_BYTES || m->stack_limit_bytes % OS_PAGE
        || m->stack_end <= m->stack_limit_bytes
        || !is_range(m->stack_end - m->stack_limit_bytes, m->stack_limit_bytes)
        || m->stack_source >= m->sources || m->stack_length > m->stack_limit_bytes
        || m->stack_pointer >= m->stack_end || m->stack_pointer < m->stack_end - m->stack_length
        || manifest_meets_kernel(m, m->stack_end - m->stack_limit_bytes, m->stack_limit_bytes)) {
        return false;
    }
    const manifest_region *r = manifest_regions(m);
    for (uint64_t i = 0; i < m->regions; i++) {
        if (manifest_meet(r[i].start, r[i].length, m->stack_end - m->stack_limit_bytes,
                          m->stack_limit_bytes)) {
            return false;
        }
    }
    const manifest_source *source = &manifest_sources(m)[m->stack_source];
    return m->stack_pointer % sizeof(uint64_t) == 0 && source->kind == MANIFEST_IMAGE
           && m->stack_offset <= source->bytes
           && m->stack_length <= source->bytes - m->stack_offset;
}

static bool
addresses_fit(const manifest *m)
{
    uint32_t writes = PROT_READ | PROT_WRITE;
    return is_in_region(m, m->entry, 1, PROT_READ | PROT_EXEC)
           && is_in_region(m, m->thread_pointer, 1, writes)
           && is_in_region(m, m->tid_address, sizeof(int), writes)
           && (!m->robust_list || is_in_region(m, m->robust_list, 1, writes))
           && (!m->rseq || is_in_region(m, m->rseq, 1, writes));
}

static uint64_t
sum_without(const char *data, uint64_t bytes, uint64_t left_out)
{
    uint64_t sum = bytes;
    for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0, left = bytes - at;
        if (at != left_out) {
            memcpy(&word, data + at, left < sizeof word ? left : sizeof word);
        }
        sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 32;
    }
    return sum;
}

uint64_t
manifest_sum(const void *data, uint64_t bytes)
{
    return sum_without(data, bytes, UINT64_MAX);
}

uint64_t
manifest_checksum(const void *data, uint64_t bytes)
{
    return sum_without(data, bytes, offsetof(manifest, checksum));
}

const char *
manifest_flaw(const void *data, uint64_t bytes)
{
    static const char nonsense[] = "the image's description makes no sense";
    const manifest *m = data;
    const checked c = {m, data, bytes};
    if (bytes < sizeof *m || bytes > MAX_BYTES) {
        return nonsense;
    }
    if (m->magic != MANIFEST_MAGIC) {
        return "the image is of another version of pasture";
    }
    if (m->bytes != bytes || bytes % sizeof(uint64_t)
        || manifest_checksum(data, bytes) != m->checksum) {
        return nonsense;
    }
    bool fits = kernels_fit(m) && sources_fit(&c) && regions_fit(&c) && files_fit(&c)
                && names_fit(&c) && is_made_of(&c) && stack_fits(m) && addresses_fit(m)
                && m->auxv_bytes <= MAX_AUXV_BYTES && is_table(&c, m->auxv_at, m->auxv_bytes, 1)
                && is_text(&c, m->python_at) && are_texts(&c, m->rules_at, is_rule)
                && are_texts(&c, m->options_at, NULL);
    return fits ? NULL : nonsense;
}

const manifest *
manifest_map(int file, uint64_t offset, uint64_t bytes, const char **why)
{
    *why = "the image's description cannot be read";
    const manifest *m = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, (off_t)offset);
    if (m == MAP_FAILED) {
        return NULL;
    }
    *why = manifest_flaw(m, bytes);
    return *why == NULL ? m : NULL;
}
