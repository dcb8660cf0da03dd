/* Runs known code, and something in the middle of it. */
#ifndef PASTURE_LAYOUT_SAMPLES_H
#define PASTURE_LAYOUT_SAMPLES_H

#include "layout_rows.h"

#ifndef CPY_UNSUPPORTED

/* Call `look` with samples while the call of one of them runs. Returns what that returns, or -1 with
   an exception set, its own or another one. */
int layout_with_samples(int (*look)(layout_samples *samples));

#endif
#endif
