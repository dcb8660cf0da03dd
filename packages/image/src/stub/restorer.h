/* The last steps before a copied process comes to life: they run while nothing of this program is
 * mapped but a piece of memory that holds them, their plan and their stack. */
#ifndef STUB_RESTORER_H
#define STUB_RESTORER_H

#include "manifest.h"
#include "message.h"

#include <linux/prctl.h>

typedef struct {
    uint64_t start, end; /* of the memory that stays: plan, code, stack, message */
    uint64_t last;       /* address behind all that this program has mapped */
    const manifest_region *region;
    uint64_t regions;
    const int *file; /* a descriptor for each source */
    uint64_t files;
    manifest_range own_kernel[MANIFEST_KERNELS]; /* where the kernel's own mappings are */
    uint64_t aside;                              /* where they wait, inside of what stays */
    manifest m;
    struct prctl_mm_map map;
    message *message;
    char comm[16];
    /* If anything fails: */
    const char *late; /* to be said then; NULL for nothing */
    uint64_t late_bytes;
    const char *last_words; /* if there is no python either */
    uint64_t last_bytes;
    const char *path;
    char **argv;
    char **envp;
} restore_plan;

/* Never returns: jumps into the image, or executes the interpreter. */
void restorer_run(restore_plan *plan);

#endif
