/* Turns this process into the one that an image was made of. */
#ifndef STUB_RESTORE_H
#define STUB_RESTORE_H

#include "manifest.h"
#include "options.h"
#include "request.h"

#include <stdbool.h>

typedef struct {
    const char *python; /* the interpreter */
    char **argv;        /* for it, and for the image */
    char **envp;
    const command_line *line;
    answer *answer;
    bool is_verbose; /* say so if it fails later */
    bool *is_stale;  /* set if a library has changed */
} restore_request;

/* Returns if it cannot be done, with the reason; the process is then as it was. Later failures
   execute the interpreter. `images` are descriptors of the files in memory, the root first. */
const char *restore(const manifest *m, const int *images, size_t count,
                    const restore_request *request);

#endif
