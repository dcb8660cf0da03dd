/* Bytecode that would rewrite itself at its first run in a child, rewritten in the parent.
 *
 * Owns the instructions of code objects: nothing else in pasture writes them, except the trace of
 * a first run (hotcode.h).
 */
#ifndef PASTURE_SPECIALIZE_H
#define PASTURE_SPECIALIZE_H

#include "../cpython/cpython.h"

/* Give the instructions of `code` the form that they would take at their first run. Meaning and
 * results of the code do not change. An instruction whose constant is mortal stays as it is, so
 * constants must be immortal already. Returns the number of instructions rewritten, or -1 with an
 * exception set. */
Py_ssize_t specialize_code(PyCodeObject *code);

/* The number of instructions of `code` that count references to an immortal constant, or -1 with an
 * exception set. 0 after specialize_code(). */
Py_ssize_t specialize_count_mortal_loads(PyCodeObject *code);

/* Whether specialize_code() leaves alone the instruction that shows whether code has run. Off at
 * first; on in a process whose children gather code again (hotcode.h). */
void specialize_keep_first_run(bool keep);

/* Whether specialize_code() has made code look as if it ran since specialize_runs_are_forgotten(). */
bool specialize_hides_runs(void);

/* From now on, code that looks as if it ran has run. */
void specialize_runs_are_forgotten(void);

#endif
