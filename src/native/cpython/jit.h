/* Traces: what CPython's second tier and its JIT compile out of instructions. */
#ifndef PASTURE_CPYTHON_JIT_H
#define PASTURE_CPYTHON_JIT_H

#include <stdbool.h>

/* Whether traces may be made in this process: they hold addresses of code and of constants. Where
   that is not known, they may. Never sets an exception. */
bool jit_makes_traces(void);

/* Whether jit_forget_traces() can do what it says, or has nothing to do. */
bool jit_can_forget_traces(void);

/* Have traces compiled again when they are next worth it: those that there are were compiled
   for constants that were mortal. */
void jit_forget_traces(void);

#endif
