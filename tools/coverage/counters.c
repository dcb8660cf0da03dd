/* Counters of coverage that all processes share, so that no end of one loses them: a file is mapped where
 * counters.ld has put them. `make coverage` links it into the extension and the stub.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int __llvm_profile_runtime = 0; /* or the runtime would write at an ordinary end, and there alone */
extern void __llvm_profile_set_filename(const char *name);
extern int __llvm_profile_write_file(void);
extern char coverage_first[], coverage_bits[], coverage_end[]; /* counters, and bits of MC/DC */

static size_t
bytes_counted(void)
{
    return (size_t)(coverage_end - coverage_first);
}

/* NULL where a test has this refused: what follows is not counted. */
static char *
map_counters(char *at, int how)
{
    const char *what = getenv("COVERAGE_OF");
    char path[4096];
    (void)snprintf(path, sizeof path, "%s.%s.counters", COVERAGE_COUNTERS, what ? what : "tests");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    char *mapped = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)bytes_counted()) == 0) {
        mapped =
            mmap(at, bytes_counted(), PROT_READ | PROT_WRITE, MAP_SHARED | how, file, 0);
        (void)fchmod(file, 0666);
    }
    if (file >= 0) {
        (void)close(file);
    }
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void
share_counters(void)
{
    (void)map_counters(coverage_first, MAP_FIXED);
}

__attribute__((constructor)) static void
count(void)
{
    share_counters();
    const char *written = getenv("COVERAGE_WRITE");
    if (written != NULL) {
        __llvm_profile_set_filename(written);
        _exit(__llvm_profile_write_file());
    }
}

/* An image has no memory that is shared, so freeze_here() counts in private memory, which is added. */
extern const void *__real_freeze_here(void) __attribute__((weak));

static void
add_counters(void)
{
    char *shared = map_counters(NULL, 0);
    if (shared == NULL) {
        return;
    }
    char *bits = shared + (coverage_bits - coverage_first);
    for (char *own = coverage_first, *one = shared; one < bits; own += 8, one += 8) {
        __atomic_fetch_add((uint64_t *)one, *(uint64_t *)own, __ATOMIC_RELAXED);
    }
    for (char *own = coverage_bits, *one = bits; own < coverage_end; own++, one++) {
        __atomic_fetch_or(one, *own, __ATOMIC_RELAXED);
    }
    (void)munmap(shared, bytes_counted());
}

const void *
__wrap_freeze_here(void)
{
    (void)mmap(coverage_first, bytes_counted(), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    const void *message = __real_freeze_here();
    add_counters();
    share_counters();
    return message;
}
