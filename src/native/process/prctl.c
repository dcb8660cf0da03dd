/* Each function is one call of prctl(2), under a name that says what it is for. */
#include "prctl.h"

#include <errno.h>
#include <sys/prctl.h>

int
prctl_adopt_orphans(int on, int *before)
{
    if (prctl(PR_GET_CHILD_SUBREAPER, (unsigned long)before, 0UL, 0UL, 0UL)) {
        return errno;
    }
    return prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)on, 0UL, 0UL, 0UL) ? errno : 0;
}

int
prctl_die_with_parent(int signal)
{
    return prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0UL, 0UL, 0UL) ? errno : 0;
}

int
prctl_dumpable(void)
{
    return prctl(PR_GET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
}
