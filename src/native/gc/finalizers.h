/* Finalizers at the end of the interpreter, while modules still have their contents.
 *
 * The interpreter takes all modules out of sys.modules and collects; only then it empties the modules
 * that are still there. So `__del__` of nearly every object finds its module as it was. In a sealed
 * process that collection ends nothing, since immortal objects hold the rest. Here it is done in the
 * place of the interpreter, without freeing anything:
 *
 *   1. A module that nothing refers to, with a dictionary that nothing else refers to, lets go of what it
 *      holds, one module after the other.
 *   2. Mortal objects that no thread and no C code holds, and no mortal object that is held so, are
 *      finalized, in the order in which a collection would meet them.
 *
 * The count of an immortal object says nothing, so none is taken to be held by C code. Where one is, as a
 * function that os.register_at_fork() got, what its module holds is finalized all the same.
 */
#ifndef PASTURE_FINALIZERS_H
#define PASTURE_FINALIZERS_H

#include "../cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

/* Have this done when all modules have gone from sys.modules. To be called by the last function of
   atexit. Returns 0, or -1 with an exception set. */
int finalizers_arm(void);

/* Do step 2 now. Returns 0, or -1 with an exception set. */
int finalizers_run(void);

/* Forget the modules of an interpreter that has ended. */
void finalizers_forget(void);

#endif
#endif
