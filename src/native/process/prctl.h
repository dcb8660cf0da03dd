/* Kinship of processes, as Linux lets a process choose it. */
#ifndef PASTURE_PRCTL_H
#define PASTURE_PRCTL_H

/* Orphaned descendants of this process become its children from now on, not those of init.
   Survives exec, is not inherited by a fork. Returns 0 or errno. */
int prctl_adopt_orphans(void);

/* This process gets `signal` when its parent ends; 0 is none. Not inherited by a fork, and
   lost by a change of user. A parent that has ended already sends nothing: look at getppid()
   afterwards. Returns 0 or errno. */
int prctl_die_with_parent(int signal);

#endif
