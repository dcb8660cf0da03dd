/* What modules may ask the kernel besides files, and a start can ask again in microseconds. */
#ifndef STUB_QUESTION_H
#define STUB_QUESTION_H

#include "manifest.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define QUESTION_ACCESS 10
#define QUESTION_ANSWER 14 /* what a file of the kernel says; 0 if that cannot be compared */

/* The number of a question by its name in the record, from 1 on; 0 if it is none. The order is
   `QUESTIONS` of pasture_image/build/lookups.py. */
uint64_t question_number(const char *name);

/* Whether a question is about a path, which its argument refers to in a manifest. */
static inline bool
question_has_path(uint64_t number)
{
    return number >= QUESTION_ACCESS;
}

/* The answer to this process, or a checksum of it. `argument` says which limit, stream or terminal is asked for, or
   what a file may be opened for, `path` which file. */
uint64_t question_answer(uint64_t number, uint64_t argument, const char *path);

/* A checksum of what stat(2) says of a file: permissions, owner, and the time of the last change, in
   seconds, as far as a copy has it. Of a folder without the time. */
uint64_t question_state(const struct stat *s);

/* NULL, or the name of the first question that has another answer than for the image, or the absolute
   path that it is about. */
const char *question_differs(const manifest *m);

#endif
