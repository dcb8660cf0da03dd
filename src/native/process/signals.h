/* Actions of signals as the kernel has them: what C code has set is in none of Python's tables. */
#ifndef PASTURE_SIGNALS_H
#define PASTURE_SIGNALS_H

#include <signal.h>

/* Return 0 or errno: EINVAL for an unknown signal, or if its action cannot be set. */
int signals_get(int number, struct sigaction *action);
int signals_set(int number, const struct sigaction *action);

/* Have the action run once; then the signal has its default effect. */
int signals_reset_after_first(int number);

#endif
