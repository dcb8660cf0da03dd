/* The functions of a library are chosen for the processor when it is loaded, and the C library keeps
 * addresses in the kernel's vDSO: both lie in an image. So a processor must be of the same model and
 * have all features, and the vDSO must be the same, byte for byte. It carries the kernel's version.
 *
 * Sources: Intel SDM volume 2, CPUID; glibc 2.41 sysdeps/x86/cpu-features.c (which leaves choose
 * functions; the size of the state that the dynamic linker saves), sysdeps/unix/sysv/linux/dl-vdso.h.
 */
#define _GNU_SOURCE
#include "host.h"

#include <elf.h>
#include <sys/auxv.h>

#ifdef __x86_64__

#include <cpuid.h>

#define MAX_VDSO_BYTES (UINT64_C(1) << 17)
#define OSXSAVE (1u << 27)
#define FOR_PROGRAMS 0x03d1413cu /* of leaf 7, edx: the others say what a microcode protects from */

typedef struct {
    unsigned a, b, c, d;
} registers;

/* All zero where the processor has no such leaf. */
static registers
cpuid(unsigned leaf, unsigned below)
{
    registers r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, below, &r.a, &r.b, &r.c, &r.d)) {
        return (registers){0, 0, 0, 0};
    }
    return r;
}

static uint64_t
two(unsigned high, unsigned low)
{
    return (uint64_t)high << 32 | low;
}

/* Which registers the kernel lets programs use; 0 for a processor without that choice. */
static uint64_t
used_state(registers features)
{
    unsigned low = 0, high = 0;
    if (features.c & OSXSAVE) {
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    }
    return two(high, low);
}

/* The checksum of the vDSO; 0 if there is none. */
static uint64_t
vdso_sum(void)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (head == NULL) {
        return 0;
    }
    uint64_t bytes = head->e_shoff + (uint64_t)head->e_shnum * head->e_shentsize;
    return bytes <= MAX_VDSO_BYTES ? manifest_sum(head, bytes & ~UINT64_C(7)) : 0;
}

void
host_find(host_fact facts[HOST_FACTS])
{
    registers vendor = cpuid(0, 0), model = cpuid(1, 0), structured = cpuid(7, 0);
    registers more = cpuid(7, 1), state = cpuid(0xd, 0), ways = cpuid(0xd, 1);
    registers extended = cpuid(0x80000001, 0), addresses = cpuid(0x80000008, 0);
    const host_fact found[HOST_FACTS] = {
        {"page size", HOST_SAME, getauxval(AT_PAGESZ)},
        {"kernel (its vDSO differs)", HOST_SAME, vdso_sum()},
        {"maker of the processor", HOST_SAME, two(vendor.b, vendor.c ^ vendor.d)},
        {"model of the processor", HOST_SAME, model.a & ~0xfu}, /* whatever its stepping */
        {"set of registers that programs use", HOST_SAME, used_state(model)},
        {"size of the processor's state", HOST_SAME, two(ways.a, state.b)},
        {"set of features of the processor (1)", HOST_HAS, two(model.c, model.d)},
        {"set of features of the processor (7)", HOST_HAS, two(structured.b, structured.c)},
        {"set of features of the processor (7.1)", HOST_HAS, two(more.a, extended.c)},
        {"set of features of the processor (7.2)", HOST_HAS,
         two(structured.d & FOR_PROGRAMS, more.d)},
        {"width of addresses", HOST_AT_LEAST, (addresses.a >> 8) & 0xff},
    };
    for (size_t i = 0; i < HOST_FACTS; i++) {
        facts[i] = found[i];
    }
}

#else

void
host_find(host_fact facts[HOST_FACTS])
{
    for (size_t i = 0; i < HOST_FACTS; i++) {
        facts[i] = (host_fact){"kind of machine", HOST_SAME, 0};
    }
}

#endif

static int
fits(const manifest_fact *needed, uint64_t value)
{
    switch (needed->rule) {
    case HOST_SAME:
        return needed->value == value;
    case HOST_HAS:
        return (needed->value & ~value) == 0;
    case HOST_AT_LEAST:
        return needed->value <= value;
    default:
        return 1;
    }
}

const char *
host_differs(const manifest *m)
{
    host_fact own[HOST_FACTS];
    const manifest_fact *needed = manifest_at(m, m->facts_at);
    if (m->facts != HOST_FACTS) {
        return "version of pasture";
    }
    host_find(own);
    for (size_t i = 0; i < HOST_FACTS; i++) {
        if (!fits(&needed[i], own[i].value)) {
            return own[i].name;
        }
    }
    return NULL;
}
