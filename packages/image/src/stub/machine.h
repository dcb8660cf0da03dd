/* What differs between kinds of machine, but for what an image in a file depends on: host.c. */
#ifndef STUB_MACHINE_H
#define STUB_MACHINE_H

#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#define OS_PAGE ((uint64_t)getauxval(AT_PAGESZ))
#define MAX_OS_PAGE 65536
#define MAX_KERNEL_BYTES (32 * OS_PAGE) /* that the kernel maps into a process */

#ifdef __x86_64__
#  define LAST_ADDRESS UINT64_C(0x7ffffffff000)
#  define RSEQ_SIGNATURE 0x53053053
#  define RSEQ_NUMBER 334 /* headers of old C libraries have none */
#else
#  define LAST_ADDRESS (UINT64_C(1) << 48)
#  define RSEQ_SIGNATURE 0xd428bc00
#  define RSEQ_NUMBER 293
#endif

#ifndef SYS_rseq
#  define SYS_rseq RSEQ_NUMBER
#endif

#endif
