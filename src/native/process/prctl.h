/* Settings of a process that Linux keeps: who adopts orphans, and what the end of a parent does
 * (prctl(2)).
 */
#ifndef PASTURE_PRCTL_H
#define PASTURE_PRCTL_H

/* From now on orphaned descendants of this process become its children, not those of init, or, where
   `on` is 0, no longer. The setting survives exec and is not inherited by a fork. Returns 0 or
   errno, with the setting before in `*before`. */
int prctl_adopt_orphans(int on, int *before);

/* Have this process get `signal` when its parent ends; 0 for none. The setting is not inherited by
   a fork, and a change of user drops it. A parent that has ended already sends nothing: check
   getppid() afterwards. Returns 0 or errno. */
int prctl_die_with_parent(int signal);

/* Whether others of this process's user may read its memory, as PR_GET_DUMPABLE has it. */
int prctl_dumpable(void);

#endif
