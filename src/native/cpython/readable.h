/* Whether memory can be read, asked of the kernel: for pointers that come from a place which may
 * hold something else.
 */
#ifndef PASTURE_CPYTHON_READABLE_H
#define PASTURE_CPYTHON_READABLE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel copies the set before it looks at the first argument, which is none that it knows:
   so it answers EFAULT or EINVAL, and changes nothing (Linux kernel/signal.c, rt_sigprocmask). */
static inline bool
readable_word(uintptr_t at)
{
    int saved = errno;
    long result = syscall(SYS_rt_sigprocmask, ~0, at, NULL, (size_t)8);
    bool can_be_read = result == -1 /* not reached: a sandbox in which that succeeds */
                       && errno != EFAULT;
    errno = saved;
    return can_be_read;
}

/* Whether `bytes` from `start` on can be read: 8 at least, and up to two OS pages. */
static inline bool
readable(const void *start, size_t bytes)
{
    uintptr_t at = (uintptr_t)start;
    if (at % sizeof(uint32_t) != 0 || at == 0 || !readable_word(at)) {
        return false;
    }
    /* not reached: begins in a mapping, and ends behind it */
    return at < at + bytes && readable_word(at + bytes - 8);
}

#endif
