/* The conversation with the server of zygotes. */
#ifndef STUB_REQUEST_H
#define STUB_REQUEST_H

#include "options.h"

#include <stdbool.h>
#include <stddef.h>

#define REQUEST_MAX_FILES 64

typedef struct {
    char text[4096]; /* the zygote's name, or why there is none */
    int file[REQUEST_MAX_FILES];
    size_t files; /* the manifest, then the images, the root first */
    bool is_served;
    int server; /* waits for word of what became of it, if it is served */
} answer;

/* NULL, or why the request cannot be served. */
const char *request_image(const char *python, const command_line *line, answer *a);

/* Say that the image is taken: what follows cannot fail in this program. */
void request_taken(answer *a);

/* Say why it is not, if the server has handed one out. */
void request_left(answer *a, const char *why);

#endif
