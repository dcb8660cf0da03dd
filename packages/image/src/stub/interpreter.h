/* The interpreter for which this program starts: the one next to it. */
#ifndef STUB_INTERPRETER_H
#define STUB_INTERPRETER_H

/* Its path, or NULL if there is none. */
const char *interpreter_find(void);

/* The path of this program without links. Precondition: interpreter_find() has found one. */
const char *interpreter_own_path(void);

#endif
