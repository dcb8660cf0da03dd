/* Actions by sigaction(2). The C library's mask is longer than the kernel's. */
#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define KERNEL_MASK_BYTES ((size_t)8) /* 64 signals */

int
signals_get(int number, struct sigaction *action)
{
    memset(action, 0, sizeof *action);
    if (sigaction(number, NULL, action) != 0) {
        return errno;
    }
    memset((char *)&action->sa_mask + KERNEL_MASK_BYTES, 0,
           sizeof action->sa_mask
               - KERNEL_MASK_BYTES); /* glibc leaves there what lay on its stack */
    return 0;
}

int
signals_set(int number, const struct sigaction *action)
{
    return sigaction(number, action, NULL) == 0 ? 0 : errno;
}

int
signals_reset_after_first(int number)
{
    struct sigaction action;
    int err = signals_get(number, &action);
    action.sa_flags |= (int)SA_RESETHAND;
    return err ? err : signals_set(number, &action);
}
