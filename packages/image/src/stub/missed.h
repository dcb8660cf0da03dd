/* Programs that were not started out of an image, counted by reason in a file next to the image:
 * `pasture image show` lists them (pasture_image/start/missed.py). */
#ifndef STUB_MISSED_H
#define STUB_MISSED_H

#include <stdbool.h>

/* Counts one more. Returns whether this user may not have heard of the reason: it is a new one, or
   nothing can be written there. Fails silently, and never waits for other processes. */
bool missed_note(const char *image, const char *why);

#endif
