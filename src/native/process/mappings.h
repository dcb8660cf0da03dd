/* Memory that a fork shares, made a process's own. */
#ifndef PASTURE_MAPPINGS_H
#define PASTURE_MAPPINGS_H

#include <stddef.h>
#include <sys/types.h>

/* Write what is mapped at an address to a file from `at` on, but not pages of zeros: they stay holes.
 * Whole OS pages, which can be read. Returns 0 or errno. */
int mappings_write(const char *from, size_t bytes, int file, off_t at);

/* Map the file from `at` on, shared, in the place of what is mapped at an address. Returns 0 or
 * errno: then nothing has changed. */
int mappings_replace(char *place, size_t bytes, int protection, int file, off_t at);

#endif
