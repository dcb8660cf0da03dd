/* Preloaded: a handler of SIGALRM that is there before the interpreter is. */
#include <signal.h>
#include <unistd.h>

static void
handle(int number)
{
    (void)number;
    (void)!write(1, "C code\n", 7);
}

__attribute__((constructor)) static void
install(void)
{
    signal(SIGALRM, handle);
}
