/* The place of a stopped process in pasture's code. */
#ifndef FAILURES_PLACES_H
#define FAILURES_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/user.h>

/* Writes the place as text, innermost first: return addresses in the extension, and the frames of Python code that are
   pasture's or gunicorn's, with the offset of the instruction. Returns whether that code asked for the call. If not, the
   text begins with who did:
   - "others", where there is no such frame;
   - "import", where the body of a module asks: the frames are those behind the import;
   - "memory", where an allocator asks, wherever it happens to need more;
   - "open", where open(3) of Python asks what it has opened: that fails as the call before it. */
bool place_of(pid_t pid, const struct user_regs_struct *regs, char *text, size_t bytes);

/* The process executes another program, or is new. */
void place_forget(pid_t pid);

#endif
