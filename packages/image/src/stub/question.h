/* What modules may ask the kernel besides files, and a start can ask again in microseconds. */
#ifndef STUB_QUESTION_H
#define STUB_QUESTION_H

#include "manifest.h"

#include <stdint.h>

/* The number of a question by its name in the record, from 1 on; 0 if it is none. The order is
   `QUESTIONS` of pasture_image/build/lookups.py. */
uint64_t question_number(const char *name);

/* A checksum of the answer to this process. `argument` says which limit is asked for. */
uint64_t question_answer(uint64_t number, uint64_t argument);

/* NULL, or the name of the first question that has another answer than for the image. */
const char *question_differs(const manifest *m);

#endif
