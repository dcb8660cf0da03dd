/* A number out of /proc/self/stat, read without malloc: the seal reads it between its plugs. */
#ifndef PASTURE_PROCSTAT_H
#define PASTURE_PROCSTAT_H

/* Numbers of fields as in proc_pid_stat(5). */
#define PROCSTAT_THREADS 20
#define PROCSTAT_HEAP_START 47

/* The field, or 0 where there is no /proc. Precondition: `field` is 4 or more. */
unsigned long procstat_read(int field);

#endif
