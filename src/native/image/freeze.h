/* A process that is stopped so that its memory can be copied, and comes to life in another. */
#ifndef PASTURE_IMAGE_FREEZE_H
#define PASTURE_IMAGE_FREEZE_H

#include <stddef.h>
#include <stdint.h>

/* The state of a process that is not in its memory. Read by the process that copies it (the order of
   the fields is `FACTS` in pasture_image/build/frozen.py). */
typedef struct {
    uint64_t entry;         /* of type freeze_entry, to be called with a message */
    uint64_t stack_pointer; /* to call it with: below is nothing of use */
    uint64_t thread_pointer;
    uint64_t tid_address; /* where the C library keeps the thread's id */
    uint64_t robust_list;
    uint64_t robust_list_bytes;
    uint64_t rseq; /* 0: not registered */
    uint64_t rseq_bytes;
    uint64_t program_break;
} freeze_facts;

/* What the process that the copy comes to life in hands over. The layout is shared with
   image/src/stub/message.h. */
typedef struct {
    char **argv; /* as the program was called; ends with NULL, as the next one */
    char **envp;
    char *text;       /* of what is to be run: see `kind` */
    uint64_t kind;    /* 'c' a command, 'm' a module, 'f' a file, 's' standard input */
    uint64_t rest;    /* index of the first argument that is the program's own */
    uint64_t scratch; /* memory to be unmapped */
    uint64_t scratch_bytes;
} freeze_message;

typedef void freeze_entry(freeze_message *message);

extern freeze_facts freeze_own_facts;

/* Stop this process for good. Returns in the process that got a copy of this memory, with its
   message. NULL, and errno set, where this process cannot be copied. */
const freeze_message *freeze_here(void);

/* Install handlers of signals as they were in the process that was copied. Until then a signal does
   what it does to a process that has just been executed. Returns a bit for each signal that was
   ignored before: bit N - 1 for signal N. */
uint64_t freeze_install_signals(void);

#endif
