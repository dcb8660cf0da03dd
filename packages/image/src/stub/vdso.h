/* Functions of the vDSO of an image's kernel, under the kernel that runs: each jumps to its own of that
 * name. The C library and others keep addresses of them, and tables of the unwinder. */
#ifndef STUB_VDSO_H
#define STUB_VDSO_H

#include <stdint.h>

/* Changes a copy of a vDSO to that end; NULL, or why it cannot be done.
   `place`: where this process's vDSO will be, of `own_bytes`. */
const char *vdso_redirect(char *copy, uint64_t bytes, uint64_t own_bytes, uint64_t place);

#endif
