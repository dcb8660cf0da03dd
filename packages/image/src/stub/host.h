/* What an image in a file depends on of the machine: the kernel and the processor. */
#ifndef STUB_HOST_H
#define STUB_HOST_H

#include "manifest.h"

#include <stdint.h>

#ifdef __x86_64__
#  define HOST_FACTS 10
#else
#  define HOST_FACTS 8
#endif

typedef enum {
    HOST_SAME, /* the same number */
    HOST_HAS,  /* all of its bits */
} host_rule;

typedef struct {
    const char *name; /* for people */
    host_rule rule;
    uint64_t value;
} host_fact;

/* Find out all of them, always in the same order. */
void host_find(host_fact facts[HOST_FACTS]);

/* NULL, or the name of the first that does not fit. */
const char *host_differs(const manifest *m);

#endif
