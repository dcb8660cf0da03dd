/* What an image in a file depends on of the machine: the kernel and the processor. */
#ifndef STUB_HOST_H
#define STUB_HOST_H

#include "manifest.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __x86_64__
#  define HOST_FACTS 12
#else
#  define HOST_FACTS 9
#endif

typedef enum {
    HOST_ANY,      /* not compared */
    HOST_SAME,     /* the same number */
    HOST_HAS,      /* all of its bits */
    HOST_AT_LEAST, /* no smaller one */
} host_rule;

typedef struct {
    const char *name; /* for people */
    host_rule rule;   /* unless an image says otherwise */
    uint64_t value;
} host_fact;

/* Find out all of them, always in the same order. */
void host_find(host_fact facts[HOST_FACTS]);

/* Whether the kernel has the vDSO that the image's had, but for its instructions. */
bool host_has_vdso_of(const manifest *m);

/* NULL, or the name of the first that does not fit. */
const char *host_differs(const manifest *m);

#endif
