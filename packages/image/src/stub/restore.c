/* Opens and checks all that the image needs, finds a place that is free before and after, writes
 * the plan there, and hands over to restorer.c. */
#define _GNU_SOURCE
#include "restore.h"

#include "content.h"
#include "machine.h"
#include "restorer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__aarch64__)

extern const char __start_restorer[], __stop_restorer[];
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#define ROUND(n) (((uint64_t)(n) + OS_PAGE - 1) & -OS_PAGE)
#define STACK_BYTES (16 * OS_PAGE)
#define SPARE_MAPPINGS 256 /* for the program's own */
#define FIRST_PLACE UINT64_C(0x100000000000)
#define LAST_PLACE UINT64_C(0x700000000000)
#define NEXT_PLACE UINT64_C(0x010000000000)

/* ---- what is mapped in this process ---- */

static uint64_t own_end;                         /* behind all that this program has mapped */
static manifest_range kernels[MANIFEST_KERNELS]; /* [vvar], [vvar_vclock], [vdso] */

/* NULL if the kernel has mapped what it had for the image, wherever. */
static const char *
read_own_maps(const manifest *m)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4400];
    uint64_t count = 0;
    bool is_same = true;
    if (maps == NULL) {
        return "what is mapped here cannot be read";
    }
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        char begin;
        int found = sscanf(line, "%lx-%lx %*s %*s 00:00 0 [v%c", &start, &end, &begin);
        if (found < 2 || start >> 63) { /* the rest of a long line; [vsyscall] */
            continue;
        }
        own_end = end;
        if (found == 3) {
            is_same = is_same && count < m->kernels && m->kernel[count].length == end - start;
            if (is_same) {
                kernels[count++] = (manifest_range){start, end - start};
            }
        }
    }
    bool is_whole = !ferror(maps);
    fclose(maps);
    if (!is_whole) {
        return "what is mapped here cannot be read";
    }
    return is_same && count == m->kernels ? NULL : "the image was made under another kernel";
}

/* ---- a place for the plan ---- */

static bool
is_free(const manifest *m, uint64_t place, uint64_t length)
{
    const manifest_region *region = manifest_regions(m);
    for (uint64_t i = 0; i < m->regions; i++) {
        if (manifest_meet(place, length, region[i].start, region[i].length)) {
            return false;
        }
    }
    if (manifest_meets_kernel(m, place, length)) { /* not reached: Linux maps near the stack */
        return false;
    }
    uint64_t stack = m->stack_end - m->stack_limit_bytes;
    return !manifest_meet(place, length, stack, m->stack_limit_bytes);
}

static char *
find_place(const manifest *m, uint64_t length)
{
    for (uint64_t place = FIRST_PLACE; place < LAST_PLACE; place += NEXT_PLACE) {
        void *wanted = (void *)(uintptr_t)place;
        if (is_free(m, place, length)
            && mmap(wanted, length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)
                   == wanted) {
            return wanted;
        }
    }
    return NULL;
}

/* ---- the files that are mapped ---- */

/* Behind the pages it has other parts. */
static bool
holds(int image, uint64_t bytes)
{
    struct stat s;
    return fstat(image, &s) == 0 && (uint64_t)s.st_size >= bytes;
}

static const char *
open_library(const manifest *m, const manifest_source *source, int *file)
{
    static char why[4400];
    const char *path = manifest_at(m, source->path);
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*file < 0) {
        snprintf(why, sizeof why, "a library cannot be opened: %s: %s", path, strerror(errno));
        return why;
    }
    snprintf(why, sizeof why, "a library has changed since the image was made: %s", path);
    return content_is(source, *file) ? NULL : why;
}

static const char *
open_sources(const manifest *m, int image, int *files)
{
    const manifest_source *source = manifest_sources(m);
    for (uint64_t i = 0; i < m->sources; i++) {
        if (source[i].kind == MANIFEST_IMAGE) {
            if (!holds(image, source[i].bytes)) {
                return "a part of the image is missing";
            }
            files[i] = image;
            continue;
        }
        const char *why = open_library(m, &source[i], &files[i]);
        if (why != NULL) {
            return why;
        }
    }
    return NULL;
}

static void
close_sources(const manifest *m, const int *files)
{
    const manifest_source *source = manifest_sources(m);
    for (uint64_t i = 0; i < m->sources; i++) {
        if (source[i].kind != MANIFEST_IMAGE && files[i] >= 0) {
            (void)close(files[i]);
        }
    }
}

/* ---- files that the image has open ---- */

/* /dev/null takes the place of a connection that a warm-up left. */
static bool
is_plain_or_null(const struct stat *s)
{
    return S_ISREG(s->st_mode) || (S_ISCHR(s->st_mode) && s->st_rdev == makedev(1, 3));
}

static bool
open_at(const manifest *m, const manifest_file *wanted)
{
    struct stat s;
    int number = (int)wanted->number;
    int flags = (int)wanted->flags;
    /* a named pipe that has come in the file's place would be waited for */
    int file = open(manifest_at(m, wanted->path), flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    (void)fcntl(file, F_SETFL, flags);
    bool is_right = fstat(file, &s) == 0 && is_plain_or_null(&s)
                    && (!wanted->offset || lseek(file, (off_t)wanted->offset, SEEK_SET) >= 0)
                    && dup3(file, number, O_CLOEXEC) == number; /* a high one: it is never `file` */
    (void)close(file);
    return is_right;
}

/* Counts those that it has opened. */
static const char *
open_files(const manifest *m, uint64_t *opened)
{
    const manifest_file *wanted = manifest_at(m, m->files_at);
    for (; *opened < m->files; ++*opened) {
        if (fcntl((int)wanted[*opened].number, F_GETFD) >= 0) {
            return "a descriptor is taken that the image has a file under";
        }
        if (!open_at(m, &wanted[*opened])) {
            return "a file cannot be opened that the image has open";
        }
    }
    return NULL;
}

/* Another image of a folder may fit. */
static void
close_files(const manifest *m, uint64_t opened)
{
    const manifest_file *file = manifest_at(m, m->files_at);
    for (uint64_t i = 0; i < opened; i++) {
        (void)close((int)file[i].number);
    }
}

/* ---- the plan ---- */

static const char late[] = "pasture-python: the kernel refuses to map the image: python runs\n";
static const char last[] = "pasture-python: the kernel maps no image and executes no python\n";

typedef struct {
    uint64_t letter; /* stays with the process: message, arguments, environment */
    uint64_t aside;  /* where the kernel's mappings wait */
    uint64_t plan, code, stack;
    uint64_t all;
} sizes;

static size_t
count_strings(char **strings, uint64_t *bytes)
{
    size_t count = 0;
    for (; strings[count] != NULL; count++) {
        *bytes += strlen(strings[count]) + 1;
    }
    return count;
}

static sizes
measure(const manifest *m, const restore_request *request)
{
    uint64_t text =
        strlen(request->line->text) + strlen(request->python) + 2 + sizeof late + sizeof last;
    size_t pointers = count_strings(request->argv, &text) + count_strings(request->envp, &text) + 2;
    sizes s = {
        .letter = ROUND(sizeof(message) + pointers * sizeof(char *) + text),
        .plan = ROUND(sizeof(restore_plan) + m->regions * sizeof(manifest_region) + m->auxv_bytes
                      + m->sources * sizeof(int)),
        .code = ROUND(__stop_restorer - __start_restorer),
        .stack = STACK_BYTES,
        .aside = MAX_KERNEL_BYTES,
    };
    s.all = s.letter + s.aside + s.plan + s.code + s.stack;
    return s;
}

static char *
put(char **at, const char *text)
{
    char *begin = *at;
    size_t length = strlen(text) + 1;
    memcpy(begin, text, length);
    *at += length;
    return begin;
}

static char **
put_strings(char **pointers, char **at, char **strings)
{
    for (; *strings != NULL; strings++) {
        *pointers++ = put(at, *strings);
    }
    *pointers = NULL;
    return pointers + 1;
}

/* Arguments and environment follow one another, as the kernel puts them: /proc shows them
   from there. */
static void
write_letter(char *place, const restore_request *request, restore_plan *plan)
{
    message *letter = (message *)place;
    uint64_t unused = 0;
    char **pointers = (char **)(letter + 1);
    char *text = (char *)(pointers + count_strings(request->argv, &unused)
                          + count_strings(request->envp, &unused) + 2);
    letter->argv = pointers;
    plan->map.arg_start = (uint64_t)(uintptr_t)text;
    letter->envp = put_strings(letter->argv, &text, request->argv);
    plan->map.arg_end = plan->map.env_start = (uint64_t)(uintptr_t)text;
    (void)put_strings(letter->envp, &text, request->envp);
    plan->map.env_end = (uint64_t)(uintptr_t)text;
    letter->text = put(&text, request->line->text);
    plan->path = put(&text, request->python);
    letter->kind = (uint64_t)request->line->kind;
    letter->rest = (uint64_t)request->line->rest;
    plan->message = letter;
    plan->argv = letter->argv;
    plan->envp = letter->envp;
}

static void
write_map(const manifest *m, void *auxv, restore_plan *plan)
{
    struct prctl_mm_map *map = &plan->map;
    map->start_code = m->start_code;
    map->end_code = m->end_code;
    map->start_data = m->start_data;
    map->end_data = m->end_data;
    map->start_brk = m->start_brk;
    map->brk = m->program_break;
    map->start_stack = m->start_stack;
    map->exe_fd = UINT32_MAX;
    map->auxv = memcpy(auxv, manifest_at(m, m->auxv_at), m->auxv_bytes);
    map->auxv_size = (uint32_t)m->auxv_bytes;
}

static restore_plan *
write_plan(const manifest *m, const int *files, const restore_request *request, char *place,
           const sizes *s)
{
    restore_plan *plan = (restore_plan *)(place + s->letter + s->aside);
    manifest_region *regions = (manifest_region *)(plan + 1);
    void *auxv = regions + m->regions;
    int *numbers = (int *)((char *)auxv + m->auxv_bytes);
    memcpy(regions, manifest_regions(m), m->regions * sizeof *regions);
    memcpy(numbers, files, m->sources * sizeof *numbers);
    plan->start = (uint64_t)(uintptr_t)place;
    plan->end = plan->start + s->all;
    plan->last = own_end;
    plan->region = regions;
    plan->regions = m->regions;
    plan->file = numbers;
    plan->files = m->sources;
    plan->m = *m;
    plan->aside = plan->start + s->letter;
    memcpy(plan->own_kernel, kernels, sizeof kernels);
    write_letter(place, request, plan);
    write_map(m, auxv, plan);
    strncpy(plan->comm, strrchr(request->python, '/') + 1, sizeof plan->comm - 1);
    char *words = place + s->letter - sizeof late - sizeof last; /* behind the message */
    plan->last_words = memcpy(words, last, sizeof last);
    plan->last_bytes = sizeof last - 1;
    if (request->is_verbose) {
        plan->late = memcpy(words + sizeof last, late, sizeof late);
        plan->late_bytes = sizeof late - 1;
    }
    plan->message->scratch = plan->aside;
    plan->message->scratch_bytes = s->all - s->letter;
    return plan;
}

static char *
thread_pointer(void)
{
    char *pointer;
#ifdef __x86_64__
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
    return pointer;
}

/* The kernel writes to it whenever this thread has been off a processor, and it is unmapped. */
static void
forget_rseq(void)
{
    /* not reached: other C libraries and kernels */
    if (&__rseq_size != NULL && &__rseq_offset != NULL && __rseq_size) {
        char *rseq = thread_pointer() + __rseq_offset;
        (void)syscall(SYS_rseq, rseq, 32, 1, RSEQ_SIGNATURE);
    }
}

static const char *
jump(char *place, const sizes *s, restore_plan *plan)
{
    char *code = place + s->letter + s->aside + s->plan;
    memcpy(code, __start_restorer, (size_t)(__stop_restorer - __start_restorer));
    __builtin___clear_cache(code, code + s->code);
    if (mprotect(code, s->code, PROT_READ | PROT_EXEC) < 0) {
        return "the kernel allows no code in new memory";
    }
    forget_rseq();
    uintptr_t offset = (uintptr_t)restorer_run - (uintptr_t)__start_restorer;
    uintptr_t stack = (uintptr_t)code + s->code + s->stack - 64;
#ifdef __x86_64__
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "call *%1"
                     :
                     : "r"(stack), "r"((uintptr_t)code + offset), "D"(plan)
                     : "memory");
#else
    register restore_plan *x0 __asm__("x0") = plan;
    __asm__ volatile("mov sp, %0\n\t"
                     "br %1"
                     :
                     : "r"(stack), "r"((uintptr_t)code + offset), "r"(x0)
                     : "memory");
#endif
    __builtin_unreachable();
}

static bool
same_stack_limit(const manifest *m)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur == m->stack_limit_bytes;
}

/* Most mappings that a process may have. It would be missed once this program is gone: limits of memory
   refuse the image itself, and python runs then. */
static bool
has_room_for_mappings(const manifest *m)
{
    char text[32] = {0};
    int file = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    bool is_known = read(file, text, sizeof text - 1) > 0;
    (void)close(file);
    return !is_known || m->regions + SPARE_MAPPINGS <= strtoull(text, NULL, 10);
}

/* PR_SET_MM_MAP is part of the kernel's support of checkpoints. */
static bool
can_describe_memory(void)
{
    unsigned bytes = 0;
    (void)syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP_SIZE, &bytes, 0, 0);
    return bytes == sizeof(struct prctl_mm_map);
}

/* Return addresses on the stack of an image are signed with keys of the process that it was made of.
   The kernel makes others for each program, and lets none choose them. */
static bool
signs_return_addresses(void)
{
#ifdef HWCAP_PACA
    return (getauxval(AT_HWCAP) & HWCAP_PACA) != 0;
#else
    return false;
#endif
}

static const char *
does_not_fit(const manifest *m)
{
    if (signs_return_addresses()) { /* not reached: arm64 alone */
        return "the processor signs return addresses";
    }
    if (!same_stack_limit(m)) {
        return "another limit of the stack";
    }
    if (!can_describe_memory()) {
        return "this kernel does not let a process describe its memory";
    }
    if (!has_room_for_mappings(m)) {
        return "the image has more mappings than vm.max_map_count";
    }
    return read_own_maps(m);
}

const char *
restore(const manifest *m, int image, const restore_request *request)
{
    const char *why = does_not_fit(m);
    if (why != NULL) {
        return why;
    }
    int *files = malloc((m->sources + 1) * sizeof *files);
    if (files == NULL) {
        return "no memory";
    }
    memset(files, -1, (m->sources + 1) * sizeof *files);
    uint64_t opened = 0;
    if ((why = open_files(m, &opened)) == NULL && (why = open_sources(m, image, files)) == NULL) {
        sizes s = measure(m, request);
        char *place = find_place(m, s.all);
        why = place == NULL ? "no address is free"
                            : jump(place, &s, write_plan(m, files, request, place, &s));
    }
    close_files(m, opened);
    close_sources(m, files);
    free(files);
    return why;
}

#else

const char *
restore(const manifest *m, int image, const restore_request *request)
{
    (void)m, (void)image, (void)request;
    return "this kind of machine is not supported";
}

#endif
