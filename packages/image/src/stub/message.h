/* The message to a process that has just come to life. The layout is that of freeze_message in
 * src/native/image/freeze.h. */
#ifndef STUB_MESSAGE_H
#define STUB_MESSAGE_H

#include <stdint.h>

typedef struct {
    char **argv;
    char **envp;
    char *text;
    uint64_t kind;
    uint64_t rest;
    uint64_t scratch;
    uint64_t scratch_bytes;
} message;

#endif
