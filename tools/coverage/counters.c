/* Counters of coverage that all processes share, so that no end of one loses them: a file is mapped where
 * counters.ld has put them. `make coverage` links it into the extension and the stub.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int __llvm_profile_runtime = 0; /* or the runtime would write at an ordinary end, and there alone */
extern void __llvm_profile_set_filename(const char *name);
extern int __llvm_profile_write_file(void);
extern char coverage_first[], coverage_end[];

static void
share_counters(void)
{
    int file = open(COVERAGE_COUNTERS, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    size_t bytes = (size_t)(coverage_end - coverage_first);
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) { /* else a test refuses it: uncounted */
        (void)mmap(coverage_first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
        (void)fchmod(file, 0666);
        (void)close(file);
    }
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

/* An image has no memory that is shared: what freeze_here() itself does is not counted. */
extern const void *__real_freeze_here(void) __attribute__((weak));

const void *
__wrap_freeze_here(void)
{
    (void)mmap(coverage_first, (size_t)(coverage_end - coverage_first), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    const void *message = __real_freeze_here();
    share_counters();
    return message;
}
