/* gc.get_objects() and gc.get_referrers() of a sealed process, where what is frozen counts as the oldest
 * generation: it would be there without the seal.
 */
#ifndef PASTURE_SHOWN_H
#define PASTURE_SHOWN_H

/* Have both functions of this interpreter show it. Does nothing where it has been
   done, or where they are not the interpreter's own. Returns 0, or -1 with an exception set. */
int shown_begin(void);

/* As at the start: another interpreter has functions of its own. */
void shown_forget(void);

#endif
