/* Has the n-th allocation of this process fail, or the n-th system call.
 *
 * Loaded by LD_PRELOAD, so that it also serves malloc, and imported as a module. Requests for memory
 * are those of malloc and of the interpreter's two other allocators, which are watched while this is
 * armed alone. System calls are failed by calls.c, whose tracee this process then is.
 *
 * By place, only requests of the extension count, the first from each place: the return addresses
 * that lead to it, out of the extension and behind. The check build asks here for each item of its
 * working memory, too (scratch.h).
 */
#define _GNU_SOURCE
#include <Python.h>

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../src/native/image/freeze.h"

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

enum { PLACES = 1 << 14, FRAMES_MAX = 24 };

/* Of the process that arms, and shared with those that it forks, so that what a child does counts. */
typedef struct {
    long wanted;      /* which request fails, from 1 on; 0: none is counted */
    int from_then_on; /* and those after it, too */
    int by_place;
    long seen, failed;
    uint64_t places[PLACES]; /* that have asked */
} request_counts;

static request_counts none, *counts = &none;
static pid_t armer;

static int
share_counts(void)
{
    if (armer != getpid()) {
        void *page =
            mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            return -1;
        }
        counts = page;
        armer = getpid();
    }
    return 0;
}

static struct {
    uintptr_t start, end;
} extension;

static int
find_extension(struct dl_phdr_info *info, size_t bytes, void *none_)
{
    (void)bytes, (void)none_;
    if (strstr(info->dlpi_name, "/pasture/_native.") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            extension.start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            extension.end = extension.start + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

/* Of who asks; 0: no function of the extension. */
static uint64_t
place_of_request(void)
{
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX), known = 0;
    uint64_t hash = 14695981039346656037u, found = 0;
    for (int i = 0; i < count; i++) {
        uintptr_t at = (uintptr_t)frames[i];
        int is_own = at > extension.start && at < extension.end;
        if (is_own || !known) {
            hash = (hash ^ at) * 1099511628211u;
        }
        if (is_own) {
            known = 1;
            found = hash ? hash : 1;
        }
    }
    return found;
}

static int
is_new_place(void)
{
    static __thread int is_looking; /* which may ask for memory itself */
    if (is_looking) {
        return 0;
    }
    is_looking = 1;
    uint64_t place = place_of_request();
    is_looking = 0;
    for (size_t i = place % PLACES; place; i = (i + 1) % PLACES) {
        if (counts->places[i] == place) {
            return 0;
        }
        if (counts->places[i] == 0) {
            counts->places[i] = place;
            return 1;
        }
    }
    return 0;
}

static int
fails(void)
{
    if (counts->wanted == 0 || (counts->by_place && !is_new_place())) {
        return 0;
    }
    counts->seen++;
    int does =
        counts->seen == counts->wanted || (counts->from_then_on && counts->seen > counts->wanted);
    counts->failed += does;
    return does;
}

__attribute__((visibility("default"))) int
failing_refuses(void)
{
    return counts->by_place && fails();
}

static void *
no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *
malloc(size_t bytes)
{
    return fails() ? no_memory() : __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
    return fails() ? no_memory() : __libc_calloc(count, bytes);
}

void *
realloc(void *block, size_t bytes)
{
    return fails() ? no_memory() : __libc_realloc(block, bytes);
}

static PyMemAllocatorEx true_mem, true_obj;

static void *
take(void *ctx, size_t bytes)
{
    PyMemAllocatorEx *real = ctx;
    return fails() ? NULL : real->malloc(real->ctx, bytes);
}

static void *
take_zeroed(void *ctx, size_t count, size_t bytes)
{
    PyMemAllocatorEx *real = ctx;
    return fails() ? NULL : real->calloc(real->ctx, count, bytes);
}

static void *
take_other(void *ctx, void *block, size_t bytes)
{
    PyMemAllocatorEx *real = ctx;
    return fails() ? NULL : real->realloc(real->ctx, block, bytes);
}

static void
give(void *ctx, void *block)
{
    PyMemAllocatorEx *real = ctx;
    real->free(real->ctx, block);
}

static void
watch(PyMemAllocatorDomain domain, PyMemAllocatorEx *real)
{
    PyMem_GetAllocator(domain, real);
    PyMemAllocatorEx ours = {real, take, take_zeroed, take_other, give};
    PyMem_SetAllocator(domain, &ours);
}

static int is_watching;

/* memory(n, from_then_on, with_objects, by_place): without objects malloc alone. */
static PyObject *
memory(PyObject *module, PyObject *args)
{
    (void)module;
    long n;
    int on, with_objects, by_place;
    if (!PyArg_ParseTuple(args, "lppp", &n, &on, &with_objects, &by_place)) {
        return NULL;
    }
    PyObject *zero = PyLong_FromLong(0);
    if (share_counts() < 0) {
        return PyErr_NoMemory();
    }
    counts->wanted = 0;
    if (by_place) {
        (void)dl_iterate_phdr(find_extension, NULL);
        (void)place_of_request(); /* what it loads at first */
    }
    if (with_objects) {
        watch(PYMEM_DOMAIN_MEM, &true_mem);
        watch(PYMEM_DOMAIN_OBJ, &true_obj);
        is_watching = 1;
    }
    memset(counts, 0, sizeof *counts);
    counts->from_then_on = on;
    counts->by_place = by_place;
    counts->wanted = n;
    return zero;
}

/* calls(n, mode, place): as in calls.c */
static PyObject *
calls(PyObject *module, PyObject *args)
{
    (void)module;
    long n, mode;
    unsigned long place = 0;
    if (!PyArg_ParseTuple(args, "ll|k", &n, &mode, &place)) {
        return NULL;
    }
    PyObject *zero = PyLong_FromLong(0);
    armer = getpid();
    if (syscall(CALLS_MARK, n, mode, place) < 0) {
        Py_FatalError("not traced by calls.c");
    }
    return zero;
}

/* Takes no memory: returns what failed, a number of a system call, 1 for memory, 0 for nothing. */
static PyObject *
none_fails(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    counts->wanted = 0;
    if (is_watching) {
        is_watching = 0;
        PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &true_mem);
        PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &true_obj);
    }
    long call = syscall(CALLS_MARK, 0, 0);
    return PyLong_FromLong(counts->failed ? 1 : call > 0 ? call : 0);
}

static const freeze_facts *wakes_by;

/* A process that stops to be copied comes to life at once, in itself. */
int
raise(int number)
{
    static char *argv[] = {"python", "word", NULL};
    static freeze_message message; /* nothing that the stack has is there afterwards */
    message = (freeze_message){.argv = argv, .envp = environ, .text = "", .kind = 's'};
    if (number == SIGSTOP && wakes_by != NULL) {
        ((freeze_entry *)(uintptr_t)wakes_by->entry)(&message);
    }
    return (int)syscall(SYS_tgkill, getpid(), gettid(), number);
}

/* wakes(address): of the facts of the extension. */
static PyObject *
wakes(PyObject *module, PyObject *address)
{
    (void)module;
    wakes_by = PyLong_AsVoidPtr(address);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(0); /* data of Python's no other program has */
}

/* Whether this process is the one that arms, and not its child. Takes no memory. */
static PyObject *
arms(PyObject *module, PyObject *none_)
{
    (void)module, (void)none_;
    return PyLong_FromLong(armer == getpid());
}

static PyMethodDef methods[] = {
    {"arms", arms, METH_NOARGS, NULL},
    {"memory", memory, METH_VARARGS, NULL},
    {"calls", calls, METH_VARARGS, NULL},
    {"none_fails", none_fails, METH_NOARGS, NULL},
    {"wakes", wakes, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "failing", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC
PyInit_failing(void)
{
    return PyModule_Create(&definition);
}
