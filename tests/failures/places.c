/* Where a process that is stopped at a system call stands in pasture's code.
 *
 * Reads its memory alone. Frames of Python code are found by the offsets that an interpreter publishes for debuggers
 * (CPython 3.13 and later), in the interpreter whose file is INTERPRETER, RUNTIME_AT behind its first mapping. C code has no frame
 * pointers everywhere: words on the stack that follow a call in the extension are taken for return addresses. A stale one
 * makes two places of one, never one of two.
 */
#define _GNU_SOURCE
#define Py_BUILD_CORE
#include "places.h"

#include <Python.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#if PY_VERSION_HEX >= 0x030D0000
#  include <internal/pycore_runtime.h>
#else
struct _Py_DebugOffsets;
#endif

static const char *const OWN[] = {"/src/pasture", "/packages/", "/site-packages/pasture",
                                  "/site-packages/gunicorn/"};
enum {
    KNOWN = 256,
    STACK_BYTES = 8192,
    RETURNS_MAX = 2,
    FRAMES_MAX = 200,
    OWNED_BY_INTERPRETER = 3
};

/* Of the last processes, by their number. */
static struct mapped {
    pid_t pid;
    uint64_t runtime, extension, extension_end;
} known[KNOWN];

static ssize_t
read_at(pid_t pid, uint64_t at, void *to, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)at, bytes};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

void
place_forget(pid_t pid)
{
    known[pid % KNOWN].pid = 0;
}

static const struct mapped *
mapped_in(pid_t pid)
{
    struct mapped *one = &known[pid % KNOWN];
    if (one->pid == pid && one->extension) {
        return one;
    }
    *one = (struct mapped){.pid = pid};
    char line[4400];
    snprintf(line, sizeof line, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(line, "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long start = 0, end = 0;
        char rights[8] = "";
        sscanf(line, "%lx-%lx %7s", &start, &end, rights);
        if (one->runtime == 0 && strstr(line, INTERPRETER "\n") != NULL) {
            one->runtime = start + RUNTIME_AT;
        }
        if (rights[2] == 'x' && strstr(line, "/pasture/_native.") != NULL) {
            one->extension = start;
            one->extension_end = end;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return one;
}

static bool
follows_call(pid_t pid, uint64_t at)
{
    uint8_t b[6];
    return read_at(pid, at - sizeof b, b, sizeof b) == sizeof b
           && (b[1] == 0xe8 || (b[0] == 0xff && b[1] == 0x15)
               || (b[4] == 0xff && (b[5] & 0x38) == 0x10)
               || (b[3] == 0xff && (b[4] & 0x38) == 0x10));
}

static size_t
add_returns(pid_t pid, uint64_t stack, const struct mapped *in, char *text, size_t bytes)
{
    uint64_t words[STACK_BYTES / sizeof(uint64_t)];
    ssize_t got = read_at(pid, stack, words, sizeof words);
    size_t used = 0;
    int found = 0;
    for (ssize_t i = 0; i < got / (ssize_t)sizeof *words && found < RETURNS_MAX; i++) {
        if (words[i] > in->extension && words[i] < in->extension_end
            && follows_call(pid, words[i])) {
            used += (size_t)snprintf(text + used, bytes - used, " _native+%lx",
                                     words[i] - in->extension);
            found++;
        }
    }
    return used;
}

#if PY_VERSION_HEX >= 0x030D0000
static uint64_t
word_at(pid_t pid, uint64_t at)
{
    uint64_t word = 0;
    return read_at(pid, at, &word, sizeof word) == sizeof word ? word : 0;
}

static void
read_string(pid_t pid, const struct _Py_DebugOffsets *o, uint64_t at, char *text, size_t bytes)
{
    uint64_t length = word_at(pid, at + o->unicode_object.length);
    length = length < bytes ? length : bytes - 1;
    ssize_t got = read_at(pid, at + o->unicode_object.asciiobject_size, text, length);
    text[got < 0 ? 0 : got] = 0;
}

static bool
is_own(const char *file)
{
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++) {
        if (strstr(file, OWN[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The thread whose number is the caller's; after a fork, until the child knows its own, the first one. */
static uint64_t
thread_of(pid_t pid, uint64_t runtime, const struct _Py_DebugOffsets *o)
{
    uint64_t interpreter = word_at(pid, runtime + o->runtime_state.interpreters_head);
    uint64_t first =
        interpreter ? word_at(pid, interpreter + o->interpreter_state.threads_head) : 0;
    for (uint64_t at = first; at; at = word_at(pid, at + o->thread_state.next)) {
        if (word_at(pid, at + o->thread_state.native_thread_id) == (uint64_t)pid) {
            return at;
        }
    }
    return first;
}

static void
add_frames(pid_t pid, uint64_t runtime, char *text, size_t bytes)
{
    struct _Py_DebugOffsets o;
    if (read_at(pid, runtime, &o, sizeof o) != sizeof o || memcmp(o.cookie, "xdebugpy", 8) != 0) {
        return;
    }
    uint64_t thread = thread_of(pid, runtime, &o);
    uint64_t frame = thread ? word_at(pid, thread + o.thread_state.current_frame) : 0;
    size_t used = 0;
    for (int i = 0; frame && i < FRAMES_MAX; i++) {
        uint8_t owner = OWNED_BY_INTERPRETER;
        (void)read_at(pid, frame + o.interpreter_frame.owner, &owner, sizeof owner);
        uint64_t code = word_at(pid, frame + o.interpreter_frame.executable) & ~(uint64_t)7;
        char file[512] = "", name[128];
        if (owner < OWNED_BY_INTERPRETER) {
            read_string(pid, &o, word_at(pid, code + o.code_object.filename), file, sizeof file);
        }
        if (is_own(file) && used < bytes) {
            read_string(pid, &o, word_at(pid, code + o.code_object.qualname), name, sizeof name);
            uint64_t at = word_at(pid, frame + o.interpreter_frame.instr_ptr);
            if (strcmp(name, "<module>") != 0) {
                used += (size_t)snprintf(text + used, bytes - used, " %s:%s+%ld",
                                         strrchr(file, '/') + 1, name,
                                         (long)(at - code - o.code_object.co_code_adaptive));
            }
            else if (used == 0) {
                used = (size_t)snprintf(text, bytes, "import");
            }
        }
        frame = word_at(pid, frame + o.interpreter_frame.previous);
    }
}
#else
#  define add_frames(...) (void)0
#endif

static bool
is_an_allocators(const struct user_regs_struct *regs)
{
    unsigned long kinds = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK;
    return regs->orig_rax == SYS_brk || regs->orig_rax == SYS_mremap
           || (regs->orig_rax == SYS_mmap && (regs->r10 & kinds) == (MAP_PRIVATE | MAP_ANONYMOUS));
}

bool
place_of(pid_t pid, const struct user_regs_struct *regs, char *text, size_t bytes)
{
    const struct mapped *in = mapped_in(pid);
    size_t used = in->extension ? add_returns(pid, regs->rsp, in, text, bytes) : 0;
    bool is_native = used > 0;
    text[used] = 0;
    if (!is_native && is_an_allocators(regs)) {
        strcpy(text, "memory");
    }
    else if (!is_native && regs->orig_rax == SYS_fstat) {
        strcpy(text, "open");
    }
    else if (in->runtime) {
        add_frames(pid, in->runtime, text + used, bytes - used);
    }
    if (*text == 0) {
        strcpy(text, "others");
    }
    return *text == ' ';
}
