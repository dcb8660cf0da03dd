/* The functions of a library are chosen for the processor when it is loaded, and the C library keeps
 * addresses in the kernel's vDSO: both lie in an image. So a processor must be of the same model and
 * have all features, and the kernel be the same: the notes in its vDSO name its version and build.
 *
 * Sources: Intel SDM volume 2, CPUID; Arm ARM, MIDR_EL1, DCZID_EL0; Linux
 * Documentation/arch/arm64/elf_hwcaps.rst; glibc 2.41 sysdeps/x86/cpu-features.c (which leaves choose
 * functions; the size of the state that the dynamic linker saves), sysdeps/unix/sysv/linux/aarch64/
 * cpu-features.c, sysdeps/unix/sysv/linux/dl-vdso.h.
 */
#define _GNU_SOURCE
#include "host.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#define MAX_VDSO_BYTES (UINT64_C(1) << 17)
#define PROCESSOR_FACTS (HOST_FACTS - 2)

/* A checksum of the vDSO but for its instructions, of which the kernel chooses some by the processor's
   features; of the kernel's release if it has none. */
static uint64_t
kernel_sum(void)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (head == NULL) { /* not reached: the kernel has one on this machine */
        struct utsname found = {0};
        (void)uname(&found);
        return manifest_sum(found.release, strlen(found.release));
    }
    uint64_t bytes = head->e_shoff + (uint64_t)head->e_shnum * head->e_shentsize;
    if (bytes > MAX_VDSO_BYTES || head->e_shentsize != sizeof(Elf64_Shdr) || !head->e_shnum) {
        return manifest_sum(head, getauxval(AT_PAGESZ));
    }
    const char *begin = (const char *)head;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(begin + head->e_shoff);
    uint64_t sum = 0, at = 0;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        uint64_t start = section[i].sh_offset, end = start + section[i].sh_size;
        if (section[i].sh_flags & SHF_EXECINSTR && at <= start && start <= end && end <= bytes) {
            sum = sum * 31 + manifest_sum(begin + at, start - at);
            at = end;
        }
    }
    return sum * 31 + manifest_sum(begin + at, bytes - at);
}

#ifdef __x86_64__

#include <cpuid.h>

#define OSXSAVE (1u << 27)
#define AVX (1u << 28)     /* of leaf 1, ecx */
#define AVX512F (1u << 16) /* of leaf 7, ebx */
#define AVX_STATE 0x6u     /* of XCR0: a feature is there if the kernel saves its registers */
#define AVX512_STATE 0xe6u
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

static void
find_processor(host_fact facts[PROCESSOR_FACTS])
{
    registers vendor = cpuid(0, 0), model = cpuid(1, 0), structured = cpuid(7, 0);
    registers more = cpuid(7, 1), state = cpuid(0xd, 0), ways = cpuid(0xd, 1);
    registers extended = cpuid(0x80000001, 0);
    uint64_t used = used_state(model);
    if ((used & AVX_STATE) != AVX_STATE) { /* not reached: an older processor */
        model.c &= ~AVX;
    }
    if ((used & AVX512_STATE) != AVX512_STATE) { /* not reached: an older processor */
        structured.b &= ~AVX512F;
    }
    const host_fact found[PROCESSOR_FACTS] = {
        {"maker of the processor", HOST_SAME, two(vendor.b, vendor.c ^ vendor.d)},
        {"model of the processor", HOST_SAME, model.a & ~0xfu}, /* whatever its stepping */
        {"set of registers that programs use", HOST_SAME, used},
        {"size of the processor's state", HOST_SAME, two(ways.a, state.b)},
        {"set of features of the processor (1)", HOST_HAS, two(model.c, model.d)},
        {"set of features of the processor (7)", HOST_HAS, two(structured.b, structured.c)},
        {"set of features of the processor (7.1)", HOST_HAS, two(more.a, extended.c)},
        {"set of features of the processor (7.2)", HOST_HAS,
         two(structured.d & FOR_PROGRAMS, more.d)},
    };
    memcpy(facts, found, sizeof found);
}

#elif defined(__aarch64__)

#include <sys/prctl.h>

#ifndef PR_SVE_GET_VL
#  define PR_SVE_GET_VL 51
#endif
#define KNOWS_MODEL (1u << 11) /* HWCAP_CPUID: the kernel lets programs read the register */
#define MODEL 0xff0ffff0u      /* of MIDR_EL1: neither variant nor revision */

/* Of the core that this runs on: cores of other kinds in one machine may refuse an image. */
static uint64_t
model(unsigned long features)
{
    uint64_t found = 0;
    if (features & KNOWS_MODEL) {
        __asm__("mrs %0, midr_el1" : "=r"(found));
    }
    return found & MODEL;
}

static uint64_t
zeroed_block(void)
{
    uint64_t found;
    __asm__("mrs %0, dczid_el0" : "=r"(found));
    return found;
}

static uint64_t
address_bits(void)
{
    return 64 - (uint64_t)__builtin_clzl(getauxval(AT_EXECFN));
}

static void
find_processor(host_fact facts[PROCESSOR_FACTS])
{
    unsigned long features = getauxval(AT_HWCAP);
    int vector = prctl(PR_SVE_GET_VL, 0, 0, 0, 0);
    const host_fact found[PROCESSOR_FACTS] = {
        {"model of the processor", HOST_SAME, model(features)},
        {"block that the processor zeroes at once", HOST_SAME, zeroed_block()},
        {"length of vectors (SVE)", HOST_SAME, vector < 0 ? 0 : (uint64_t)vector},
        {"set of features of the processor (1)", HOST_HAS, features},
        {"set of features of the processor (2)", HOST_HAS, getauxval(AT_HWCAP2)},
        {"width of addresses", HOST_SAME, address_bits()},
    };
    memcpy(facts, found, sizeof found);
}

#else

static void
find_processor(host_fact facts[PROCESSOR_FACTS])
{
    for (size_t i = 0; i < PROCESSOR_FACTS; i++) {
        facts[i] = (host_fact){"kind of machine", HOST_SAME, 0};
    }
}

#endif

void
host_find(host_fact facts[HOST_FACTS])
{
    facts[0] = (host_fact){"page size", HOST_SAME, getauxval(AT_PAGESZ)};
    facts[1] = (host_fact){"kernel", HOST_SAME, kernel_sum()};
    find_processor(facts + 2);
}

static bool
fits(uint64_t needed, const host_fact *own)
{
    return own->rule == HOST_HAS ? (needed & ~own->value) == 0 : needed == own->value;
}

const char *
host_differs(const manifest *m)
{
    host_fact own[HOST_FACTS];
    const uint64_t *needed = manifest_at(m, m->facts_at);
    if (m->facts != HOST_FACTS) {
        return "kind of machine, or version of pasture";
    }
    host_find(own);
    for (size_t i = 0; i < HOST_FACTS; i++) {
        if (!fits(needed[i], &own[i])) {
            return own[i].name;
        }
    }
    return NULL;
}

/* not reached in this file: the kernel and the processor are what they are on this machine */
