/* Who this process is: getpid and getppid by names and types that RPython can call. */

#ifndef PASTURE_PROCESS_H
#define PASTURE_PROCESS_H

#include <unistd.h>

static inline long
pasture_process_id(void)
{
    return (long)getpid();
}

static inline long
pasture_parent_id(void)
{
    return (long)getppid();
}

#endif
