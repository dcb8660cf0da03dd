/* Whether an environment would have made the same process of the interpreter. */
#ifndef STUB_RULES_H
#define STUB_RULES_H

/* `rules` is a list of strings that ends with an empty one: "=NAME=VALUE" must be so, "-NAME" must
   not be set, "^BEGIN" is the beginning of names that must be in the list to be set, "*TEXT" is
   contained in such names, both in any case; excepted from that are "!NAME" and all names that begin as
   "~BEGIN" says. NULL, or the name of a variable that does not fit. */
const char *rules_broken(const char *rules, char **environ);

#endif
