/* Descriptors of others, which a process that stays behind must not keep open. */
#ifndef STUB_DESCRIPTORS_H
#define STUB_DESCRIPTORS_H

#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#  define SYS_close_range 436
#endif

/* Linux before 5.9 knows no such call. */
static inline void
close_from(int first)
{
    if (syscall(SYS_close_range, first, ~0u, 0) < 0) {
        for (int i = first; i < 1024; i++) {
            (void)close(i);
        }
    }
}

#endif
