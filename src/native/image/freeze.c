/* Stops the process where it is, and goes on from there in another process.
 *
 * The copy is made from outside while this process is stopped. Where it comes to life all memory is
 * the same, and so are the thread pointer and the stack. Everything else belongs to the new
 * process: descriptors, ids, limits, dispositions of signals. Handlers of signals are functions in
 * the memory that was copied, so they are installed again here.
 */
#define _GNU_SOURCE
#include "../cpython/cpython.h"

#ifndef CPY_UNSUPPORTED

#include "freeze.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#  include <asm/prctl.h>
#endif

#define SIGNALS 64
#define ROOM_BYTES (64 * 1024) /* of stack between what runs now and the new entry */

/* The kernel's own, not the C library's. */
typedef struct {
    uint64_t handler;
    uint64_t flags;
    uint64_t restorer;
    uint64_t mask;
} disposition;

freeze_facts freeze_own_facts;

static disposition dispositions[SIGNALS + 1];
static jmp_buf here;
static uint64_t float_control; /* rounding, and what becomes of tiny numbers */
static freeze_message *received;

static int
exchange(int number, const disposition *new, disposition *old)
{
    return (int)syscall(SYS_rt_sigaction, number, new, old, sizeof old->mask);
}

static uint64_t
read_float_control(void)
{
#ifdef __x86_64__
    uint16_t of_x87;
    __asm__ volatile("fnstcw %0" : "=m"(of_x87));
    return (uint64_t)of_x87 << 32 | __builtin_ia32_stmxcsr();
#else
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#endif
}

static void
write_float_control(uint64_t control)
{
#ifdef __x86_64__
    uint16_t of_x87 = (uint16_t)(control >> 32);
    __asm__ volatile("fldcw %0" : : "m"(of_x87));
    __builtin_ia32_ldmxcsr((unsigned)control);
#else
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#endif
}

static void
come_to_life(freeze_message *message)
{
    received = message;
    longjmp(here, 1);
}

static void
find_rseq(void)
{
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned int *bytes = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (offset != NULL && bytes != NULL /* not reached: glibc before 2.35, and others */
        && *bytes != 0) {
        freeze_own_facts.rseq = freeze_own_facts.thread_pointer + (uint64_t)*offset;
        freeze_own_facts.rseq_bytes = *bytes;
    }
}

static int
find_thread(void)
{
    freeze_facts *facts = &freeze_own_facts;
#ifdef __x86_64__
    __asm__("mov %%fs:0, %0" : "=r"(facts->thread_pointer)); /* which points to itself */
#else
    facts->thread_pointer = (uint64_t)__builtin_thread_pointer();
#endif
    if (prctl(PR_GET_TID_ADDRESS, &facts->tid_address, 0, 0, 0) < 0) {
        return -1;
    }
    find_rseq();
    return (int)syscall(SYS_get_robust_list, 0, &facts->robust_list, &facts->robust_list_bytes);
}

/* After a fork the kernel does not know the address any more on some versions: the C library has
   set it for the first thread alone. */
static void
keep_dispositions(void)
{
    for (int number = 1; number <= SIGNALS; number++) {
        (void)exchange(number, NULL, &dispositions[number]);
    }
}

/* The interpreter leaves an ignored SIGINT ignored; everything else that was installed while
   modules were loaded would be installed in the same way in a new process. */
uint64_t
freeze_install_signals(void)
{
    uint64_t ignored = 0;
    for (int number = 1; number <= SIGNALS; number++) {
        const disposition *own = &dispositions[number];
        disposition inherited = {0};
        (void)exchange(number, NULL, &inherited);
        bool was_ignored = inherited.handler == (uint64_t)(uintptr_t)SIG_IGN;
        ignored |= (uint64_t)was_ignored << (number - 1);
        if (own->handler != (uint64_t)(uintptr_t)SIG_DFL && !(number == SIGINT && was_ignored)) {
            (void)exchange(number, own, NULL);
        }
    }
    return ignored;
}

const freeze_message *
freeze_here(void)
{
    if (find_thread() < 0) {
        return NULL;
    }
    keep_dispositions();
    float_control = read_float_control();
    freeze_own_facts.program_break = (uint64_t)syscall(SYS_brk, 0);
    freeze_own_facts.entry = (uint64_t)(uintptr_t)come_to_life;
    freeze_own_facts.stack_pointer =
        ((uint64_t)(uintptr_t)__builtin_frame_address(0) - ROOM_BYTES) & ~(uint64_t)63;
    if (_setjmp(here) == 0) {
        (void)raise(SIGSTOP);
        _exit(0); /* woken up, though it was only there to be copied */
    }
    write_float_control(float_control);
    environ = received->envp;
    if (received->scratch_bytes) {
        (void)munmap((void *)(uintptr_t)received->scratch, received->scratch_bytes);
    }
    return received;
}

#endif
