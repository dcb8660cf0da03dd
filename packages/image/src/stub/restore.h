/* Turns this process into the one that an image was made of. */
#ifndef STUB_RESTORE_H
#define STUB_RESTORE_H

#include "manifest.h"
#include "options.h"

#include <stdbool.h>

typedef struct {
    const char *python; /* the interpreter */
    char **argv;        /* for it, and for the image */
    char **envp;
    const command_line *line;
    bool is_verbose; /* say so if it fails later */
} restore_request;

/* Returns if it cannot be done, with the reason; the process is then as it was. Later failures
   execute the interpreter. `image` is the descriptor of its file. */
const char *restore(const manifest *m, int image, const restore_request *request);

#endif
