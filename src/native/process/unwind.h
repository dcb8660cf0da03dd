/* The C stack of this thread: which functions are on it, and a return from one of them.
 *
 * The unwinder is that of libgcc, which the C library itself loads to end threads. It is loaded when it is
 * first asked for, and never needed: where it is missing, on a machine that is not known, or under a shadow
 * stack (which would have to lose as many return addresses as the stack), unwind_load() says so.
 */
#ifndef PASTURE_UNWIND_H
#define PASTURE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__aarch64__)
#  define UNWIND_SAVED 11 /* x19 to x29 */
#else
#  define UNWIND_SAVED 6 /* x86-64: rbx, rbp, r12 to r15 */
#endif

/* Whether a return puts back all registers that a function expects back: on aarch64 not those of floating
   point, d8 to d15. */
#if defined(__aarch64__)
#  define UNWIND_RESTORES_ALL 0
#else
#  define UNWIND_RESTORES_ALL 1
#endif

/* Where a function goes on when what it called has returned, with the registers that it expects back. */
typedef struct {
    uintptr_t ip, sp;
    uintptr_t saved[UNWIND_SAVED];
} unwind_place;

/* A function on the stack, at the place behind the call that it has made, and where its code begins, or a
   part of it that lies elsewhere; NULL where that is not known. */
typedef struct {
    unwind_place place;
    const void *function;
} unwind_frame;

/* Returns NULL, or why the stack cannot be read. */
const char *unwind_load(void);

/* Calls `visit` for the caller of this function, and on, outward, as long as it returns true. Precondition:
   unwind_load() has returned NULL. */
void unwind_walk(bool (*visit)(const unwind_frame *frame, void *arg), void *arg);

/* Where the function begins that holds this instruction, or NULL. Same precondition. */
const void *unwind_function_of(const void *instruction);

/* Where the first unconditional jump of a function leads that leads to the beginning of another one, or
   NULL. Same precondition. */
const void *unwind_first_jump(const void *function);

/* The function that a frame's call calls, or NULL if the call does not name it. */
const void *unwind_called_by(const unwind_frame *frame);

/* Go on at a place, as if what was called there had returned `value`. The frames between are gone, without
   any end of theirs. */
_Noreturn void unwind_return_to(const unwind_place *place, long value);

#endif
