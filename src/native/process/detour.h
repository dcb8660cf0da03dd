/* Has a function of the C library jump to another one. */
#ifndef PASTURE_DETOUR_H
#define PASTURE_DETOUR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __x86_64__
#  define DETOUR_BYTES 18
#else
#  define DETOUR_BYTES 24
#endif

typedef struct {
    uint8_t *at; /* the code, or NULL: the function does what it did */
    uint8_t original[DETOUR_BYTES];
} detour;

/* The code of a function, or NULL where it cannot be replaced. */
uint8_t *detour_find(const char *name);

/* Replace the first bytes of that code. Until detour_end() the function itself cannot be called. False
   where that cannot be done. Precondition: no other thread runs these bytes. */
bool detour_begin(detour *d, uint8_t *at, const void *to);

/* Remove the detour, if any. Returns 0, or errno if it is still there. */
int detour_end(detour *d);

#endif
