/* Each instruction that is read here lies in code that is mapped: in a function that the unwinder knows, or
 * right before the address to which a running call returns.
 */
#define _GNU_SOURCE
#include "unwind.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

#if defined(__x86_64__) || defined(__aarch64__)

#define LIBRARY "libgcc_s.so.1"
#define JUMP_WITHIN_BYTES \
    96 /* a function that does nothing but set up a call and jump is shorter */

static struct {
    bool looked;
    const char *missing;
    _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
    _Unwind_Ptr (*ip)(struct _Unwind_Context *, int *);
    _Unwind_Word (*cfa)(struct _Unwind_Context *);
    _Unwind_Word (*gr)(struct _Unwind_Context *, int);
    void *(*function)(void *);
} unwinder;

#  if defined(__x86_64__)

/* In the order of unwind_place.saved: the numbers that DWARF gives them. */
static const int saved_registers[UNWIND_SAVED] = {3, 6, 12, 13, 14, 15};

static bool
has_shadow_stack(void)
{
    unsigned long pointer = 0;
    __asm__ volatile("rdsspq %0" : "+r"(pointer)); /* no operation where there is none */
    return pointer != 0;
}

/* Where a jump or a call leads, or NULL if it is another instruction: jmp rel32, call rel32. */
static const void *
target_of(const unsigned char *code, unsigned char opcode)
{
    int32_t distance;
    memcpy(&distance, code + 1, sizeof distance);
    return *code == opcode ? code + 5 + distance : NULL;
}

#    define JUMP 0xe9
#    define CALL 0xe8
#    define BRANCH_BYTES 5
#    define INSTRUCTION_BYTES 1 /* at least */

_Noreturn void
unwind_return_to(const unwind_place *place, long value)
{
    __asm__ volatile(
        "mov (%0), %%rdx\n\t"
        "mov 16(%0), %%rbx\n\t"
        "mov 24(%0), %%rbp\n\t"
        "mov 32(%0), %%r12\n\t"
        "mov 40(%0), %%r13\n\t"
        "mov 48(%0), %%r14\n\t"
        "mov 56(%0), %%r15\n\t"
        "cld\n\t"
        "mov 8(%0), %%rsp\n\t" /* last: a signal may overwrite what then lies below it */
        "jmp *%%rdx"
        :
        : "c"(place), "a"(value)
        : "memory");
    __builtin_unreachable();
}

#  else /* aarch64 */

static const int saved_registers[UNWIND_SAVED] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29};

/* HWCAP_GCS: a guarded control stack. No kernel turns it on for a program that was not built for it. */
static bool
has_shadow_stack(void)
{
    unsigned long features = 0;
    __asm__ volatile("mov x16, %1\n\thint #40\n\tmov %0, x16" /* chkfeat x16: clears what is on */
                     : "=r"(features)
                     : "r"(1UL)
                     : "x16");
    return features == 0;
}

/* Where a jump or a call leads, or NULL if it is another instruction: b and bl, 26 bits, in words. */
static const void *
target_of(const unsigned char *code, uint32_t opcode)
{
    uint32_t word;
    memcpy(&word, code, sizeof word);
    if (word >> 26 != opcode) {
        return NULL;
    }
    int64_t words = (int64_t)((uint64_t)word << 38) >> 38;
    return code + words * 4;
}

#    define JUMP 0x05
#    define CALL 0x25
#    define BRANCH_BYTES 4
#    define INSTRUCTION_BYTES 4

/* `ret` in place of `br`: the place behind a call is no place that a guarded page lets be branched to. */
_Noreturn void
unwind_return_to(const unwind_place *place, long value)
{
    register const unwind_place *to __asm__("x9") = place;
    register long result __asm__("x0") = value;
    __asm__ volatile("ldp x10, x11, [x9]\n\t"
                     "ldp x19, x20, [x9, #16]\n\t"
                     "ldp x21, x22, [x9, #32]\n\t"
                     "ldp x23, x24, [x9, #48]\n\t"
                     "ldp x25, x26, [x9, #64]\n\t"
                     "ldp x27, x28, [x9, #80]\n\t"
                     "ldr x29, [x9, #96]\n\t"
                     "mov sp, x11\n\t" /* last: a signal may overwrite what then lies below it */
                     "ret x10"
                     :
                     : "r"(to), "r"(result)
                     : "memory");
    __builtin_unreachable();
}

#  endif

static bool
find_symbols(void *library)
{
    struct {
        const char *name;
        void *at;
    } wanted[] = {
        {"_Unwind_Backtrace", &unwinder.backtrace},
        {"_Unwind_GetIPInfo", &unwinder.ip},
        {"_Unwind_GetCFA", &unwinder.cfa},
        {"_Unwind_GetGR", &unwinder.gr},
        {"_Unwind_FindEnclosingFunction", &unwinder.function},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (symbol == NULL) {
            return false;
        }
        memcpy(wanted[i].at, &symbol, sizeof symbol);
    }
    return true;
}

const char *
unwind_load(void)
{
    if (!unwinder.looked) {
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        unwinder.looked = true;
        if (has_shadow_stack()) { /* not reached: by kernels that give threads no shadow stack */
            unwinder.missing = "its threads have shadow stacks, which would miss the returns";
        }
        else if (library == NULL || !find_symbols(library)) {
            unwinder.missing = LIBRARY
                " cannot be loaded; if it is missing: apt install libgcc-s1, apk add libgcc";
        }
    }
    return unwinder.missing;
}

typedef struct {
    bool (*visit)(const unwind_frame *, void *);
    void *arg;
    bool is_own; /* the frame of unwind_walk() comes first */
} walk;

static _Unwind_Reason_Code
visit_frame(struct _Unwind_Context *context, void *arg)
{
    walk *run = arg;
    if (run->is_own) {
        run->is_own = false;
        return _URC_NO_REASON;
    }
    int is_before =
        0; /* whether the instruction has not been run: in a frame that a signal interrupted */
    unwind_frame frame = {
        .place = {.ip = unwinder.ip(context, &is_before), .sp = unwinder.cfa(context)}};
    for (size_t i = 0; i < UNWIND_SAVED; i++) {
        frame.place.saved[i] = unwinder.gr(context, saved_registers[i]);
    }
    frame.function = unwind_function_of((const void *)(frame.place.ip - !is_before));
    return run->visit(&frame, run->arg) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

__attribute__((noinline)) void
unwind_walk(bool (*visit)(const unwind_frame *frame, void *arg), void *arg)
{
    (void)unwinder.backtrace(visit_frame, &(walk){.visit = visit, .arg = arg, .is_own = true});
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame has to be there */
}

const void *
unwind_function_of(const void *instruction)
{
    /* It looks at the byte before what it is given, which it takes for a return address. */
    return unwinder.function((char *)instruction + 1);
}

const void *
unwind_first_jump(const void *function)
{
    const unsigned char *code = function;
    for (size_t i = 0; i < JUMP_WITHIN_BYTES; i += INSTRUCTION_BYTES) {
        if (unwind_function_of(code + i + BRANCH_BYTES - 1) != function) {
            break;
        }
        const void *target = target_of(code + i, JUMP);
        if (target != NULL && unwind_function_of(target) == target) {
            return target;
        }
    }
    return NULL;
}

const void *
unwind_called_by(const unwind_frame *frame)
{
    const unsigned char *begin = frame->function, *behind = (const unsigned char *)frame->place.ip;
    bool has_call = begin != NULL && behind >= begin + BRANCH_BYTES;
    return has_call ? target_of(behind - BRANCH_BYTES, CALL) : NULL;
}

#else

const char *
unwind_load(void)
{
    return "the stack of this machine is not known";
}

void
unwind_walk(bool (*visit)(const unwind_frame *frame, void *arg), void *arg)
{
    (void)visit, (void)arg;
}

const void *
unwind_function_of(const void *instruction)
{
    return (void)instruction, NULL;
}

const void *
unwind_first_jump(const void *function)
{
    return (void)function, NULL;
}

const void *
unwind_called_by(const unwind_frame *frame)
{
    return (void)frame, NULL;
}

_Noreturn void
unwind_return_to(const unwind_place *place, long value)
{
    (void)place, (void)value;
    __builtin_trap();
}

#endif

/* not reached in this file: a C library or an unwinder of another make */
