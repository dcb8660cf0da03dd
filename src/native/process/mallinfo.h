/* glibc's own account of its main heap, by whatever name this glibc has it.
 *
 * mallinfo2() came with glibc 2.33. It is asked for at run time, so that one wheel serves older
 * ones, too. There it is mallinfo(), whose fields have 32 bits: of 4 GiB and more they say less
 * than there is, never more.
 */
#ifndef PASTURE_MALLINFO_H
#define PASTURE_MALLINFO_H

#include <malloc.h>
#include <stddef.h>

#ifdef __GLIBC__

typedef struct {
    size_t used_bytes; /* in blocks that are handed out */
    size_t top_bytes;  /* of the top chunk, as far as it could be given back */
} mallinfo_account;

/* As mallinfo(3) has them. Declared here: headers of older releases do not. */
typedef struct {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} mallinfo_fields;

extern mallinfo_fields mallinfo_wide(void) __asm__("mallinfo2") __attribute__((weak));

#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static inline mallinfo_account
mallinfo_read_narrow(void)
{
    struct mallinfo info = mallinfo();
    return (mallinfo_account){(unsigned int)info.uordblks, (unsigned int)info.keepcost};
}

#  pragma GCC diagnostic pop

static inline mallinfo_account
mallinfo_read(void)
{
    if (mallinfo_wide == NULL) { /* not reached: glibc before 2.33 */
        return mallinfo_read_narrow();
    }
    mallinfo_fields info = mallinfo_wide();
    return (mallinfo_account){info.uordblks, info.keepcost};
}

#endif

#endif
