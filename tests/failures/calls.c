/* Has the n-th system call of a program fail, in any of its processes: x86-64 alone.
 *
 *     calls LOG PROGRAM...                 the program says when, by a call of failing.c
 *     calls LOG EXEC N MODE PROGRAM...     from when a file of the name EXEC is executed, in it
 *
 * Counted are all calls, or those of one place in pasture's code (places.h): a server's n-th call is another one in each
 * run, the n-th of a place is not.
 *
 * The processes run under a filter (seccomp(2), SECCOMP_RET_TRACE) that stops them at those calls alone that can
 * fail. LOG gets a line at the end: what has failed, how many calls there were, how many processes were left when
 * the program had ended, some seconds later, and, where they were asked for, all places with the number of their calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "places.h"

/* What fails, and how: in mode 0 one call by `error`; in mode 1 by `other`, if there is one; in mode 2 what
   writes does half of its work; in mode 3 the call and all that follow, by `error`. */
enum { ONE, OTHER, SHORT, ALL };

typedef struct {
    int number, error, other;
    bool writes;
} row;

static const row rows[] = {
    {SYS_mmap, ENOMEM, 0, false},
    {SYS_mremap, ENOMEM, 0, false},
    {SYS_brk, ENOMEM, 0, false},
    {SYS_madvise, ENOMEM, EBUSY, false},
    {SYS_mprotect, ENOMEM, EACCES, false},
    {SYS_memfd_create, EMFILE, ENOSYS, false},
    {SYS_openat, EMFILE, EACCES, false},
    {SYS_open, EMFILE, EACCES, false},
    {SYS_pipe2, EMFILE, 0, false},
    {SYS_socket, EMFILE, EAFNOSUPPORT, false},
    {SYS_socketpair, EMFILE, 0, false},
    {SYS_dup, EMFILE, 0, false},
    {SYS_dup2, EMFILE, 0, false},
    {SYS_dup3, EMFILE, 0, false},
    {SYS_epoll_create1, EMFILE, 0, false},
    {SYS_read, EIO, ESRCH, false},
    {SYS_pread64, EIO, 0, false},
    {SYS_write, ENOSPC, EIO, true},
    {SYS_pwrite64, ENOSPC, EIO, true},
    {SYS_writev, ENOSPC, EIO, false},
    {SYS_sendto, ENOBUFS, EPIPE, true},
    {SYS_sendmsg, ENOBUFS, EPIPE, false},
    {SYS_recvmsg, ENOMEM, ECONNRESET, false},
    {SYS_copy_file_range, ENOSPC, ENOSYS, true},
    {SYS_sendfile, ENOSPC, ENOSYS, true},
    {SYS_fstat, ENOMEM, 0, false},
    {SYS_newfstatat, ENOMEM, EACCES, false},
    {SYS_getdents64, ENOMEM, EIO, false},
    {SYS_ftruncate, ENOSPC, EIO, false},
    {SYS_fallocate, ENOSPC, EOPNOTSUPP, false},
    {SYS_fsync, EIO, 0, false},
    {SYS_flock, ENOLCK, 0, false},
    {SYS_rename, ENOSPC, EROFS, false},
    {SYS_renameat2, ENOSPC, EROFS, false},
    {SYS_link, ENOSPC, EPERM, false},
    {SYS_linkat, ENOSPC, EPERM, false},
    {SYS_mkdir, ENOSPC, EROFS, false},
    {SYS_mkdirat, ENOSPC, EROFS, false},
    {SYS_fork, EAGAIN, ENOMEM, false},
    {SYS_vfork, EAGAIN, ENOMEM, false},
    {SYS_clone, EAGAIN, ENOMEM, false},
    {SYS_clone3, EAGAIN, ENOMEM, false},
    {SYS_execve, ENOMEM, EACCES, false},
    {SYS_ptrace, EPERM, 0, false},
    {SYS_process_vm_readv, EPERM, 0, false},
    {SYS_prctl, EPERM, EINVAL, false},
    {SYS_seccomp, EBUSY, EINVAL, false},
    {SYS_prlimit64, EPERM, 0, false},
    {SYS_sigaltstack, ENOMEM, 0, false},
    {SYS_timer_create, EAGAIN, 0, false},
    {SYS_readlink, EIO, EACCES, false},
    {SYS_fstatfs, EIO, ENOSYS, false},
    {SYS_close_range, ENOSYS, 0, false},
    {SYS_fcntl, EMFILE, EPERM, false}, /* of these two not what is_of_many() */
    {SYS_ioctl, EINTR, ENOENT, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

static long wanted, seen, mode;    /* as in failing.c */
static unsigned long wanted_place; /* 0: any; 1: any, and places are noted */
static long failed_call;
static pid_t failed_in;

/* A place's hash, in whose low bits the number of its call is, or ANY_CALL. */
enum { CALL_BITS = 10, ANY_CALL = (1 << CALL_BITS) - 1, PLACES = 1 << 14 };
static struct {
    unsigned long hash, count;
    char *text;
} places[PLACES];
static char place_text[2048];

static unsigned long
place_at(pid_t pid, const struct user_regs_struct *regs)
{
    bool is_one = place_of(pid, regs, place_text, sizeof place_text);
    unsigned long hash = 14695981039346656037u;
    for (const char *c = place_text; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    }
    return hash << CALL_BITS | (is_one ? regs->orig_rax : ANY_CALL);
}

static void
note_place(unsigned long hash)
{
    size_t i = (hash >> CALL_BITS ^ hash) % PLACES;
    for (size_t tried = 0; tried < PLACES; tried++, i = (i + 1) % PLACES) {
        if (places[i].hash == hash || places[i].hash == 0) {
            places[i].text = places[i].hash ? places[i].text : strdup(place_text);
            places[i].hash = hash;
            places[i].count++;
            return;
        }
    }
}

static void
stop(const char *why)
{
    perror(why);
    exit(70);
}

static void
arm(long n, long how, unsigned long place)
{
    wanted = n;
    mode = how;
    wanted_place = place;
    seen = failed_call = 0;
}

static const row *
row_of(long number)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].number == number) {
            return &rows[i];
        }
    }
    return NULL;
}

static void
return_at_once(struct user_regs_struct *regs, long long value)
{
    regs->orig_rax = (unsigned long long)-1;
    regs->rax = (unsigned long long)value;
}

/* Calls with many meanings: a descriptor, a seal, a question of a recorded program's. */
static bool
is_of_many(const row *call, unsigned long what)
{
    if (call->number == SYS_fcntl) {
        return what != F_DUPFD_CLOEXEC && what != F_ADD_SEALS;
    }
    return call->number == SYS_ioctl && (what != SECCOMP_IOCTL_NOTIF_RECV || mode == ALL);
}

static bool
can_fail(const row *call, const struct user_regs_struct *regs)
{
    if ((call->number == SYS_brk && regs->rdi == 0) || is_of_many(call, regs->rsi)) {
        return false; /* a question */
    }
    bool is_output = call->number == SYS_write || call->number == SYS_writev;
    bool is_said = is_output && regs->rdi == 2; /* why something else failed */
    bool is_short = mode == SHORT && call->writes && regs->rdx > 1;
    if (is_said) {
        return false;
    }
    return mode == ONE || mode == ALL || (mode == OTHER && call->other) || is_short;
}

static void
fail(const row *call, struct user_regs_struct *regs)
{
    if (mode == SHORT) {
        regs->rdx /= 2;
    }
    else if (call->number == SYS_brk) {
        regs->rdi = 0; /* one that fails returns the program break */
    }
    else {
        return_at_once(regs, mode == OTHER ? -call->other : -call->error);
    }
}

/* A program may expect its registers back: one that has another argument is stopped at its end, too. */
enum { CHANGED = 1 << 10 };
static struct changed {
    pid_t pid;
    unsigned long long rdi, rdx;
} changed[CHANGED]; /* by the process's number: in mode 3 many are in a call */

static void
restore_arguments(pid_t pid)
{
    struct user_regs_struct regs;
    struct changed *row = &changed[pid % CHANGED];
    if (row->pid == pid && ptrace(PTRACE_GETREGS, pid, NULL, &regs) == 0) {
        regs.rdi = row->rdi;
        regs.rdx = row->rdx;
        (void)ptrace(PTRACE_SETREGS, pid, NULL, &regs);
    }
    row->pid = 0;
}

static bool executes(pid_t pid, const char *name);

static const char *exec; /* the name of the file that arms, or NULL */
static bool is_executing;
static bool has_executed[1 << 22]; /* processes, by their number: another program, since */

static bool
is_counted(pid_t pid, const struct user_regs_struct *regs)
{
    if (exec != NULL && (has_executed[pid] || !executes(pid, exec))) {
        return false; /* another program's calls are its own */
    }
    if (wanted_place == 0) {
        return true;
    }
    if (wanted_place == 1) {
        note_place(place_at(pid, regs));
        return true;
    }
    unsigned long number = wanted_place & ANY_CALL;
    return (number == regs->orig_rax || number == ANY_CALL) && place_at(pid, regs) == wanted_place;
}

static void
at_call(pid_t pid)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0) {
        return; /* killed */
    }
    if (regs.orig_rax == CALLS_MARK) {
        long found = failed_call;
        if (regs.rdi) {
            arm((long)regs.rdi, (long)regs.rsi, regs.rdx);
        }
        else {
            wanted = 0;
        }
        return_at_once(&regs, regs.rdi ? 0 : found);
    }
    else {
        const row *call = row_of((long)regs.orig_rax);
        if (wanted == 0 || call == NULL || !can_fail(call, &regs)) {
            return;
        }
        bool follows = mode == ALL && failed_call && exec == NULL;
        if (!follows && !is_counted(pid, &regs)) {
            return;
        }
        seen++;
        follows = mode == ALL && failed_call;
        if (!follows && seen != wanted) {
            return;
        }
        if (failed_call == 0) {
            failed_call = call->number ? call->number : 1000; /* read(2) is 0 */
            failed_in = pid;
        }
        struct user_regs_struct before = regs;
        fail(call, &regs);
        if (regs.rdi != before.rdi || regs.rdx != before.rdx) {
            changed[pid % CHANGED] = (struct changed){pid, before.rdi, before.rdx};
        }
    }
    (void)ptrace(PTRACE_SETREGS, pid, NULL, &regs);
}

static bool
executes(pid_t pid, const char *name)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) {
        return false;
    }
    path[length] = 0;
    return strcmp(basename(path), name) == 0;
}

static void
run(char **argv)
{
    struct sock_filter steps[2 * (ROWS + 1) + 2];
    size_t count = 0;
    steps[count++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i <= ROWS; i++) {
        unsigned number = i < ROWS ? (unsigned)rows[i].number : CALLS_MARK;
        steps[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)count, .filter = steps};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)raise(SIGSTOP); /* until it is traced */
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        stop("seccomp");
    }
    execvp(argv[0], argv);
    stop(argv[0]);
}

enum { LEFT_S = 5 }; /* a process that gets TERM has ended then */
static long exec_wanted, exec_mode;
static pid_t program;
static int program_status = -1;

/* Returns the signal to go on with, or -1 where the process stays stopped. */
static int
at_stop(pid_t pid, int status)
{
    int event = status >> 16, number = WSTOPSIG(status);
    if (number == (SIGTRAP | 0x80)) {
        restore_arguments(pid);
        return 0;
    }
    switch (event) {
    case PTRACE_EVENT_SECCOMP:
        at_call(pid);
        return 0;
    case PTRACE_EVENT_EXEC:
        place_forget(pid);
        if (exec != NULL && !is_executing && executes(pid, exec)) {
            arm(exec_wanted, exec_mode, 0);
            is_executing = true;
        }
        else if (is_executing) {
            has_executed[pid] = true;
        }
        return 0;

    case PTRACE_EVENT_STOP:
        if (number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) {
            return -1;
        }
        return 0;
    case 0:
        return number;
    default:
        return 0; /* a fork */
    }
}

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long
count_left(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
    FILE *children = fopen(path, "r");
    long pid, count = 0;
    while (children != NULL && fscanf(children, "%ld", &pid) == 1) {
        count++;
    }
    return count;
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        return 64;
    }
    FILE *log = fopen(argv[1], "we");
    bool is_armed_by_exec = argc > 5 && atol(argv[3]) > 0;
    if (is_armed_by_exec) {
        exec = argv[2];
        exec_wanted = atol(argv[3]);
        exec_mode = atol(argv[4]);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* and with it all that it traces */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    program = fork();
    if (program == 0) {
        run(argv + (is_armed_by_exec ? 5 : 2));
    }
    int status;
    if (log == NULL || program < 0 || waitpid(program, &status, WUNTRACED) != program
        || ptrace(PTRACE_SEIZE, program, 0,
                  PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP
                      | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE
                      | PTRACE_O_TRACEEXEC)
               < 0
        || kill(program, SIGCONT) < 0) {
        stop("cannot trace");
    }
    double until = 0;
    while (program_status < 0 || now() < until) {
        pid_t pid = waitpid(-1, &status, __WALL | (program_status < 0 ? 0 : WNOHANG));
        if (pid < 0) {
            break; /* none is left */
        }
        if (pid == 0) {
            (void)usleep(10000);
        }
        else if (!WIFSTOPPED(status)) {
            place_forget(pid);
            changed[pid % CHANGED].pid = 0;
            if (pid == program) {
                program_status = status;
                until = now() + (getenv("LEFT_S") ? atof(getenv("LEFT_S")) : LEFT_S);
            }
        }
        else {
            int number = at_stop(pid, status);
            int go_on = changed[pid % CHANGED].pid == pid ? PTRACE_SYSCALL : PTRACE_CONT;
            (void)ptrace(number < 0 ? PTRACE_LISTEN : go_on, pid, NULL,
                         (void *)(long)(number < 0 ? 0 : number));
        }
    }
    fprintf(log,
            "{\"failed\": %ld, \"calls\": %ld, \"left\": %ld, \"in_program\": %s, \"places\": [",
            failed_call, seen, count_left(), failed_in == program ? "true" : "false");
    const char *comma = "";
    for (size_t i = 0; i < PLACES; i++) {
        if (places[i].hash) {
            fprintf(log, "%s{\"place\": %lu, \"count\": %lu, \"where\": \"%s\"}", comma,
                    places[i].hash, places[i].count, places[i].text);
            comma = ", ";
        }
    }
    fprintf(log, "]}\n");
    (void)fclose(log);
    if (WIFSIGNALED(program_status)) {
        (void)signal(WTERMSIG(program_status), SIG_DFL);
        (void)kill(getpid(), WTERMSIG(program_status));
    }
    return WEXITSTATUS(program_status);
}
