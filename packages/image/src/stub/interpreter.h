/* The interpreter that this program stands for: the one beside it. */
#ifndef STUB_INTERPRETER_H
#define STUB_INTERPRETER_H

/* Its path, or NULL if there is none. */
const char *interpreter_find(void);

#endif
