/* Do the layouts that this extension was compiled for match the interpreter it runs in? */
#ifndef PASTURE_LAYOUT_H
#define PASTURE_LAYOUT_H

/* Returns 0, or -1 with RuntimeError set that names what differs. Changes nothing. */
int layout_check(void);

#endif
