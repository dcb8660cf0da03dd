/* Has the n-th allocation of this process fail, or the n-th system call.
 *
 * Loaded by LD_PRELOAD, so that it also serves malloc, and imported as a module. Requests for memory
 * are those of malloc and of the interpreter's two other allocators, which are watched while this is
 * armed alone. System calls are failed by calls.c, whose tracee this process then is.
 */
#include <Python.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

/* Of the process that arms, and shared with those that it forks, so that what a child does counts. */
typedef struct {
    long wanted;      /* which request fails, from 1 on; 0: none is counted */
    int from_then_on; /* and those after it, too */
    long seen, failed;
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

static int
fails(void)
{
    if (counts->wanted == 0) {
        return 0;
    }
    counts->seen++;
    int does =
        counts->seen == counts->wanted || (counts->from_then_on && counts->seen > counts->wanted);
    counts->failed += does;
    return does;
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

/* memory(n, from_then_on, with_objects): without the latter malloc alone. */
static PyObject *
memory(PyObject *module, PyObject *args)
{
    (void)module;
    long n;
    int on, with_objects;
    if (!PyArg_ParseTuple(args, "lpp", &n, &on, &with_objects)) {
        return NULL;
    }
    PyObject *zero = PyLong_FromLong(0);
    if (share_counts() < 0) {
        return PyErr_NoMemory();
    }
    if (with_objects) {
        watch(PYMEM_DOMAIN_MEM, &true_mem);
        watch(PYMEM_DOMAIN_OBJ, &true_obj);
        is_watching = 1;
    }
    *counts = (request_counts){.wanted = n, .from_then_on = on};
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
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "failing", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC
PyInit_failing(void)
{
    return PyModule_Create(&definition);
}
