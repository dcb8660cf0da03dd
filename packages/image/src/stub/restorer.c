/* Everything here is inlined into one function in a section of its own, which refers to nothing
 * outside of it: it is copied elsewhere before it runs. So no call, no constant with an address,
 * and no C library. */
#define _GNU_SOURCE
#include "restorer.h"

#include "machine.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <sys/mman.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#  include <asm/prctl.h>
#endif

#define RSEQ_BYTES 32
#define ALWAYS static inline __attribute__((always_inline))

#ifdef __x86_64__

ALWAYS long
call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    register uint64_t r10 __asm__("r10") = d;
    register uint64_t r8 __asm__("r8") = e;
    register uint64_t r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

ALWAYS long
set_thread_pointer(uint64_t pointer)
{
    return call(SYS_arch_prctl, ARCH_SET_FS, pointer, 0, 0, 0, 0);
}

__attribute__((noreturn)) ALWAYS void
jump(uint64_t entry, uint64_t stack_pointer, message *letter)
{
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "push $0\n\t"
                     "jmp *%1"
                     :
                     : "r"(stack_pointer), "r"(entry), "D"(letter)
                     : "memory");
    __builtin_unreachable();
}

#else

ALWAYS long
call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    register long x8 __asm__("x8") = number;
    register uint64_t x0 __asm__("x0") = a;
    register uint64_t x1 __asm__("x1") = b;
    register uint64_t x2 __asm__("x2") = c;
    register uint64_t x3 __asm__("x3") = d;
    register uint64_t x4 __asm__("x4") = e;
    register uint64_t x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return (long)x0;
}

ALWAYS long
set_thread_pointer(uint64_t pointer)
{
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(pointer) : "memory");
    return 0;
}

__attribute__((noreturn)) ALWAYS void
jump(uint64_t entry, uint64_t stack_pointer, message *letter)
{
    register message *x0 __asm__("x0") = letter;
    __asm__ volatile("mov sp, %0\n\t"
                     "br %1"
                     :
                     : "r"(stack_pointer), "r"(entry), "r"(x0)
                     : "memory");
    __builtin_unreachable();
}

#endif

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

ALWAYS int
move(uint64_t from, uint64_t length, uint64_t to)
{
    return call(SYS_mremap, from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0) != (long)to;
}

ALWAYS int
clear_address_space(const restore_plan *plan)
{
    uint64_t aside = plan->aside;
    for (uint64_t i = 0; i < plan->m.kernels; i++) {
        if (move(plan->own_kernel[i].start, plan->own_kernel[i].length, aside)) {
            return -1;
        }
        aside += plan->own_kernel[i].length;
    }
    return call(SYS_munmap, 0, plan->start, 0, 0, 0, 0)
           || call(SYS_munmap, plan->end, plan->last - plan->end, 0, 0, 0, 0);
}

ALWAYS int
map_regions(const restore_plan *plan)
{
    for (uint64_t i = 0; i < plan->regions; i++) {
        const manifest_region *r = &plan->region[i];
        uint64_t file =
            r->source == MANIFEST_ANONYMOUS ? UINT64_MAX : (uint64_t)plan->file[r->source];
        if (call(SYS_mmap, r->start, r->length, r->protection, r->flags | MAP_FIXED, file,
                 r->offset)
            != (long)r->start) {
            return -1;
        }
        if (r->advice) {
            (void)call(SYS_madvise, r->start, r->length, r->advice, 0, 0, 0);
        }
    }
    return 0;
}

/* One mapping of its full size, so that nothing else can take the room that it may grow into. */
ALWAYS int
make_stack(const restore_plan *plan)
{
    const manifest *m = &plan->m;
    uint64_t start = m->stack_end - m->stack_limit_bytes;
    if (call(SYS_mmap, start, m->stack_limit_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN | MAP_NORESERVE, UINT64_MAX, 0)
        != (long)start) {
        return -1;
    }
    uint64_t at = m->stack_end - m->stack_length;
    return call(SYS_pread64, (uint64_t)plan->file[m->stack_source], at, m->stack_length,
                m->stack_offset, 0, 0)
           != (long)m->stack_length;
}

ALWAYS int
put_kernels_back(const restore_plan *plan)
{
    uint64_t aside = plan->aside;
    for (uint64_t i = 0; i < plan->m.kernels; i++) {
        if (move(aside, plan->m.kernel[i].length, plan->m.kernel[i].start)) {
            return -1;
        }
        aside += plan->m.kernel[i].length;
    }
    return 0;
}

ALWAYS int
settle(const restore_plan *plan)
{
    const manifest *m = &plan->m;
    if (call(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, ADDRESS(&plan->map), sizeof plan->map, 0, 0)
        || set_thread_pointer(m->thread_pointer)
        || call(SYS_set_robust_list, m->robust_list, m->robust_list_bytes, 0, 0, 0, 0)) {
        return -1;
    }
    long thread = call(SYS_set_tid_address, m->tid_address, 0, 0, 0, 0, 0);
    *(volatile int *)(uintptr_t)m->tid_address = (int)thread;
    if (m->rseq && call(SYS_rseq, m->rseq, RSEQ_BYTES, 0, RSEQ_SIGNATURE, 0, 0)) {
        return -1;
    }
    return (int)call(SYS_prctl, PR_SET_NAME, ADDRESS(plan->comm), 0, 0, 0, 0);
}

__attribute__((noreturn)) ALWAYS void
enter(const restore_plan *plan)
{
    for (uint64_t i = 0; i < plan->files; i++) {
        (void)call(SYS_close, (uint64_t)plan->file[i], 0, 0, 0, 0, 0);
    }
    jump(plan->m.entry, plan->m.stack_pointer, plan->message);
}

__attribute__((section("restorer"), noinline, used)) void
restorer_run(restore_plan *plan)
{
    if (!clear_address_space(plan) && !map_regions(plan) && !make_stack(plan)
        && !put_kernels_back(plan) && !settle(plan)) {
        enter(plan);
    }
    if (plan->late) {
        (void)call(SYS_write, 2, ADDRESS(plan->late), plan->late_bytes, 0, 0, 0);
    }
    (void)call(SYS_execve, ADDRESS(plan->path), ADDRESS(plan->argv), ADDRESS(plan->envp), 0, 0, 0);
    (void)call(SYS_write, 2, ADDRESS(plan->last_words), plan->last_bytes, 0, 0, 0);
    for (;;) {
        (void)call(SYS_exit_group, 126, 0, 0, 0, 0, 0);
    }
}

#endif
