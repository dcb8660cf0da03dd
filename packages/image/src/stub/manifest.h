/* What has to be known of an image: the layout of the bytes that pasture_image/build/manifest.py writes,
 * in its order. Offsets count from the first byte. */
#ifndef STUB_MANIFEST_H
#define STUB_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_MAGIC UINT64_C(0x4854464D475A5350)
#define MANIFEST_KERNELS 6
#define MANIFEST_QUESTIONS 14 /* that question.h knows */
#define MANIFEST_ANONYMOUS UINT32_MAX

typedef struct {
    uint64_t start, length;
} manifest_range;

typedef enum {
    MANIFEST_IMAGE, /* the image's own pages: its size up to their end */
    MANIFEST_FILE,  /* a file that has a path */
} manifest_kind;

typedef struct {
    uint64_t kind;
    uint64_t bytes;
    uint64_t path;
    uint64_t sum;               /* as content_sum */
    uint64_t inode, changed_ns; /* st_ctim: with both the same it has the sum; 0 if not known */
} manifest_source;

typedef struct {
    uint64_t start, length, offset;
    uint32_t source;
    uint32_t protection, flags, advice;
} manifest_region;

typedef struct {
    uint64_t number, flags, offset; /* under which number, as open(2) and lseek(2) make it */
    uint64_t path;
} manifest_file;

typedef struct {
    uint64_t path; /* of a folder that modules of the image come from */
} manifest_folder;

typedef struct {
    uint64_t text;    /* a top-level name; the table is sorted by it, byte by byte */
    uint32_t folder;  /* index in the table of folders, or MANIFEST_ANONYMOUS */
    uint32_t is_open; /* a folder of that name is enough, without a module in it */
} manifest_name;

typedef struct {
    uint64_t path, bytes, mode;
    uint64_t inode, changed_ns; /* st_ctim: with both the same it is the same; 0 if not known */
    uint64_t is_readable, sum;  /* whether by this user; content_sum */
} manifest_dated;

typedef struct {
    uint64_t path;              /* of a folder */
    uint64_t inode, changed_ns; /* the rest is compared where they differ */
    uint64_t names;             /* texts: what counts in it, as in pasture_image/build/search.py */
    uint64_t found;             /* texts: entries that count; `name/` for a folder */
    uint64_t missing;           /* texts: paths at which there must be nothing */
    uint64_t is_listed, sum;    /* content_sum_of_names */
} manifest_searched;

typedef struct {
    uint64_t number, argument, answer; /* of question.h */
} manifest_question;

typedef struct {
    uint64_t magic;
    uint64_t bytes;    /* of all, a multiple of 8 */
    uint64_t checksum; /* of all others as numbers: see manifest_checksum */
    /* freeze_facts of src/native/image/freeze.h */
    uint64_t entry, stack_pointer, thread_pointer, tid_address, robust_list, robust_list_bytes;
    uint64_t rseq, rseq_bytes, program_break;
    uint64_t start_code, end_code, start_data, end_data, start_brk, start_stack;
    uint64_t stack_end, stack_limit_bytes, stack_length, stack_source, stack_offset;
    uint64_t kernels;
    manifest_range kernel[MANIFEST_KERNELS];
    uint64_t sources, sources_at;
    uint64_t regions, regions_at;
    uint64_t files, files_at;
    uint64_t auxv_bytes, auxv_at;
    uint64_t rules_at, python_at, options_at;
    uint64_t folders, folders_at;
    uint64_t names, names_at;
    /* What it was made of. */
    uint64_t facts, facts_at;
    uint64_t dated, dated_at;
    uint64_t searched, searched_at;
    uint64_t questions, questions_at;
} manifest;

/* Map a manifest, which is a part of a file that is long enough; NULL, and a reason in `why`, if it
   makes no sense. */
const manifest *manifest_map(int file, uint64_t offset, uint64_t bytes, const char **why);

/* NULL if all of it can be used as it is: every table, text and number is inside of what it refers
   to. Otherwise why not. `data` is aligned to 8 bytes. */
const char *manifest_flaw(const void *data, uint64_t bytes);

/* A flipped bit changes it. Against who can write the file there is no help here. */
uint64_t manifest_checksum(const void *data, uint64_t bytes);

/* The same sum of any bytes, all of them. */
uint64_t manifest_sum(const void *data, uint64_t bytes);

/* Whether a range meets one that the kernel maps into a process. */
bool manifest_meets_kernel(const manifest *m, uint64_t start, uint64_t length);

static inline bool
manifest_meet(uint64_t start, uint64_t length, uint64_t other, uint64_t other_length)
{
    return start < other + other_length && other < start + length;
}

static inline const void *
manifest_at(const manifest *m, uint64_t offset)
{
    return (const char *)m + offset;
}

static inline const manifest_source *
manifest_sources(const manifest *m)
{
    return manifest_at(m, m->sources_at);
}

static inline const manifest_region *
manifest_regions(const manifest *m)
{
    return manifest_at(m, m->regions_at);
}

#endif
