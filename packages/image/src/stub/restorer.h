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
    uint64_t own_kernels;
    uint64_t aside[MANIFEST_KERNELS]; /* where they wait, inside of what stays */
    uint64_t vdso; /* a copy of the image's that leads to them: they stay there; 0 for none */
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

/* The code between these two can be moved. */
extern const char restorer_begin[], restorer_end[];

/* Never returns: jumps into the image, or executes the interpreter. */
void restorer_run(restore_plan *plan);

#endif
