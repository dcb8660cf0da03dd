/* Running a program as the interpreter's own command line does, in an interpreter that runs
 * already: what Py_RunMain reads is put into the configuration first.
 *
 * Source: CPython 3.14 Modules/main.c, pymain_run_python; Python/initconfig.c, config_update_argv,
 * config_init_stdio.
 */
#ifndef PASTURE_CPYTHON_MAIN_H
#define PASTURE_CPYTHON_MAIN_H

#include "pycore.h"

#include "internal/pycore_initconfig.h" /* PyConfig of an interpreter */
#include "internal/pycore_pystate.h"    /* _PyInterpreterState_SetNotRunningMain */
#include "internal/pycore_runtime.h"    /* _PyRuntime */

#include "roots.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if PY_VERSION_HEX >= 0x030C0100
#  pragma weak _PyInterpreterState_SetNotRunningMain /* 3.12.0 has neither it nor what it undoes */
#endif

/* Replace a string of the configuration; NULL for none. -1 without memory. */
static inline int
cpy_config_set(wchar_t **member, const wchar_t *value)
{
    wchar_t *copy = NULL;
    if (value != NULL) {
        size_t bytes = (wcslen(value) + 1) * sizeof *value;
        copy = PyMem_RawMalloc(bytes);
        if (copy == NULL) {
            return -1;
        }
        memcpy(copy, value, bytes);
    }
    PyMem_RawFree(*member);
    *member = copy;
    return 0;
}

static inline PyConfig *
cpy_config(void)
{
    return (PyConfig *)&PyInterpreterState_Get()->config;
}

/* The UTF-8 mode as sys.flags, functions in C and other interpreters find it (PEP 540). */
static inline void
cpy_set_utf8_mode(PyObject *flags, Py_ssize_t index, int is_utf8)
{
    _PyRuntime.preconfig.utf8_mode = is_utf8;
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    Py_UTF8Mode = is_utf8;
    _Py_COMP_DIAG_POP
    PyStructSequence_SetItem(flags, index, PyLong_FromLong(is_utf8)); /* small: none is freed */
}

#if PY_VERSION_HEX < 0x030C0000

typedef struct {
    const void *of_object; /* an address in the object whose variables are looked through */
    PyWideStringList wanted;
    PyWideStringList *found;
} cpy_argument_search;

static inline int
cpy_search_object(struct dl_phdr_info *info, size_t Py_UNUSED(bytes), void *data)
{
    cpy_argument_search *search = data;
    bool has_it = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        has_it |= part->p_type == PT_LOAD && (uintptr_t)search->of_object - start < part->p_memsz;
    }
    for (int i = 0; has_it && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = (info->dlpi_addr + part->p_vaddr + 7) & ~(uintptr_t)7;
        uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W)) {
            continue;
        }
        for (; start + sizeof search->wanted <= end; start += 8) {
            if (memcmp((const void *)start, &search->wanted, sizeof search->wanted) == 0) {
                search->found = (PyWideStringList *)start;
            }
        }
    }
    return has_it;
}

#endif

/* Where Py_GetArgcArgv() has its arguments from; NULL if that cannot be found. Before 3.12 it is a
   variable that no header names. */
static inline PyWideStringList *
cpy_arguments(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return &_PyRuntime.orig_argv;
#else
    int length;
    cpy_argument_search search = {.of_object = &_PyRuntime};
    Py_GetArgcArgv(&length, &search.wanted.items);
    search.wanted.length = length;
    (void)dl_iterate_phdr(cpy_search_object, &search);
    return search.found;
#endif
}

/* Frames that run now are no callers of what is run next: it finds itself the outermost. Returns the
   innermost of them, for cpy_show_frames(). */
static inline struct _PyInterpreterFrame *
cpy_hide_frames(void)
{
    PyThreadState *thread = PyThreadState_Get();
    struct _PyInterpreterFrame *hidden = cpy_current_frame(thread);
#if PY_VERSION_HEX >= 0x030F0000
    *cpy_frame_place(thread) = thread->base_frame;
#else
    *cpy_frame_place(thread) = NULL;
#endif
    return hidden;
}

/* They are callers again. */
static inline void
cpy_show_frames(struct _PyInterpreterFrame *hidden)
{
    *cpy_frame_place(PyThreadState_Get()) = hidden;
}

/* Hide frames from the code that runs from here to the end. */
static inline void
cpy_become_outermost(void)
{
    PyThreadState *thread = PyThreadState_Get();
    (void)cpy_hide_frames();
#if PY_VERSION_HEX >= 0x030C0000
    thread->py_recursion_remaining = thread->py_recursion_limit;
#else
    thread->recursion_remaining = thread->recursion_limit;
#endif
#if PY_VERSION_HEX >= 0x030C0100
    if (_PyInterpreterState_SetNotRunningMain != NULL) { /* not reached: CPython 3.12.0 */
        _PyInterpreterState_SetNotRunningMain(PyInterpreterState_Get());
    }
#endif
}

#endif
