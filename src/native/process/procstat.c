/* Finds a field in /proc/self/stat.
 *
 * Fields are one space apart. The second is the name of the program in parentheses, which may
 * itself hold spaces and parentheses: counting starts at the last one that closes.
 */
#define _GNU_SOURCE
#include "procstat.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_FIELD 2

unsigned long
procstat_read(int field)
{
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (length <= 0) {
        return 0;
    }
    text[length] = 0;
    const char *at = strrchr(text, ')');
    /* not reached: a kernel that writes fewer fields */
    for (int i = NAME_FIELD; i < field && at != NULL; i++) {
        at = strchr(at + 1, ' ');
    }
    /* not reached: a kernel that writes fewer fields */
    return at == NULL ? 0 : strtoul(at, NULL, 10);
}
