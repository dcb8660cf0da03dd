/* Bytecode that would rewrite itself at its first run in a child.
 *
 * The owner of code objects' instructions: nothing else in pasture writes them.
 */
#ifndef PASTURE_SPECIALIZE_H
#define PASTURE_SPECIALIZE_H

#include "../cpython/cpython.h"

/* Give the instructions of `code` the form they would take at their first run.
 * Constants must be immortal already: an instruction whose constant is not stays.
 * Meaning and results of the code do not change. Returns the number rewritten, or -1 with
 * an exception set. */
Py_ssize_t specialize_code(PyCodeObject *code);

/* The number of instructions of `code` that count references to an immortal constant, or -1
 * with an exception set. Settled code has none. */
Py_ssize_t specialize_count_mortal_loads(PyCodeObject *code);

/* Whether settling leaves the instruction alone by which code shows that it ran. Off at the
 * beginning; on in a process whose children gather code again. */
void specialize_keep_first_run(bool keep);

#endif
