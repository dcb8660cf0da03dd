/* PASTURE_IMAGE=auto: an image for each program, made in the background by its first start.
 * pasture_image/start/auto.py makes it, pasture_image/start/seen.py notes what the first start imports. */
#ifndef STUB_AUTO_H
#define STUB_AUTO_H

#include "options.h"

/* Where the image of a program is, or will be; NULL, and why, if it can have none. */
const char *auto_place(const char *python, const command_line *line, const char **why);

/* Has the image made by another process, unless that goes on already, or has failed. Says what was
   done; the interpreter runs the program meanwhile. */
const char *auto_order(const char *place, const char *python, const command_line *line);

/* Keeps an image that is used from being removed before others. */
void auto_used(const char *place);

#endif
