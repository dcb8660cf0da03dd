/* A program that embeds the interpreter and initializes it again: each argument is Python source, that is
 * run in an interpreter of its own, one after the other; with BY_RUN_MAIN by Py_RunMain().
 *
 * Preloaded into the interpreter's executable, whose main it takes the place of, so that no
 * library with the interpreter is needed.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stdbool.h>

static int
run_in_new_interpreter(char *program, const char *source)
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, program);
    if (!PyStatus_Exception(status)) { /* the first interpreter's would be found again */
        status = PyConfig_SetBytesString(&config, &config.executable, program);
    }
    const bool by_run_main = getenv("BY_RUN_MAIN") != NULL;
    if (!PyStatus_Exception(status) && by_run_main) {
        status = PyConfig_SetBytesString(&config, &config.run_command, source);
    }
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "%s: %s\n", status.func, status.err_msg);
        return 1;
    }
    if (by_run_main) {
        return Py_RunMain();
    }
    int failed = PyRun_SimpleString(source) != 0;
    return Py_FinalizeEx() < 0 || failed;
}

static int
run_each(int argc, char **argv, char **Py_UNUSED(environment))
{
    for (int i = 1; i < argc; i++) {
        int status = run_in_new_interpreter(argv[0], argv[i]);
        if (status) {
            fprintf(stderr, "interpreter %d failed\n", i);
            return status;
        }
    }
    return 0;
}

typedef int (*main_function)(int, char **, char **);

int
__libc_start_main(main_function main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*rtld_fini)(void), void *stack_end)
{
    int (*start)(main_function, int, char **, void (*)(void), void (*)(void), void (*)(void),
                 void *) = dlsym(RTLD_NEXT, "__libc_start_main");
    (void)main;
    unsetenv("LD_PRELOAD"); /* not for the processes of the test */
    return start(run_each, argc, argv, init, fini, rtld_fini, stack_end);
}
